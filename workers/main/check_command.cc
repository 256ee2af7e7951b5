#include "workers/main/check_command.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"
#include "sdk/common/base/clock.h"
#include "sdk/common/base/cut_text.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/data_set/data_set.h"
#include "sdk/common/messages/settings.h"
#include "sdk/common/schema/template_kwargs.h"
#include "workers/engine/kernels/kv_cache.h"
#include "workers/engine/scalar/check_weights.h"
#include "workers/policy/chat_messages.h"
#include "workers/policy/policy_source.h"
#include "workers/policy/template_settings.h"
#include "workers/reward/numeric_answers.h"
#include "workers/reward/verdict.h"
#include "workers/tokenizer/tokens/class_warning.h"

namespace baton {
namespace {

using engine::ScalarHead;
using policy::PolicySource;

/// A model of a spec, and what is asked of it.
struct NamedModel {
  std::string field;  ///< "spec.model", "spec.critic.model", …
  v1::ModelSpec* model;
  ScalarHead head;
};

std::vector<NamedModel> ModelsToCheck(v1::JobSpec* spec) {
  const bool scores = spec->kind() == v1::JOB_KIND_REWARD_MODEL;
  std::vector<NamedModel> out = {
      {"spec.model", spec->mutable_model(), scores ? ScalarHead::kOptional : ScalarHead::kNone}};
  const auto add = [&out](const char* field, auto* section, ScalarHead head) {
    out.push_back({field, section->mutable_model(), head});
  };
  if (spec->has_critic()) add("spec.critic.model", spec->mutable_critic(), ScalarHead::kOptional);
  if (spec->has_cost_critic()) {
    add("spec.cost_critic.model", spec->mutable_cost_critic(), ScalarHead::kOptional);
  }
  if (spec->has_reference()) {
    add("spec.reference.model", spec->mutable_reference(), ScalarHead::kNone);
  }
  if (spec->has_reward_model()) {
    add("spec.reward_model.model", spec->mutable_reward_model(), ScalarHead::kRequired);
  }
  if (spec->has_cost_model()) {
    add("spec.cost_model.model", spec->mutable_cost_model(), ScalarHead::kRequired);
  }
  if (spec->has_judge()) add("spec.judge.model", spec->mutable_judge(), ScalarHead::kNone);
  return out;
}

/// Keys of a line that have an effect through the chat template alone: variables for it, and
/// reasoning in turns.
std::set<std::string> KeysForTemplate(const Example& example) {
  std::set<std::string> keys;
  const auto add = [&keys](const std::string& json, bool reasoning_alone) {
    const auto object = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
    for (const auto& [key, value] : object.items()) {
      const bool reasoning = std::find(std::begin(kReasoningFields), std::end(kReasoningFields),
                                       key) != std::end(kReasoningFields);
      if (!reasoning_alone || (reasoning && value != "")) keys.insert(key);
    }
  };
  if (!example.chat_template_kwargs_json.empty()) add(example.chat_template_kwargs_json, false);
  for (const auto* turns : {&example.messages, &example.response_messages}) {
    for (const v1::ChatMessage& turn : *turns) {
      if (!turn.other_fields_json().empty()) add(turn.other_fields_json(), true);
    }
  }
  return keys;
}

bool Filters(const v1::DataSpec& data) {
  return data.filter_overlong_prompts() || data.filter_overlong_responses();
}

class Checking {
 public:
  Checking(const v1::JobSpec& spec, const std::string& filtered_folder, uint64_t filtered_bytes,
           absl::Duration time)
      : spec_(spec),
        filtered_folder_(filtered_folder),
        time_(Filters(spec.data()) ? absl::InfiniteDuration() : time),
        room_(filtered_bytes) {
    *out_.mutable_effective_spec() = spec;
    response_limits_.set_max_response_length(spec.data().max_response_length());
    response_limits_.set_loss_on(spec.data().loss_on());
  }

  absl::StatusOr<v1::ValidateJobResponse> Run() {
    CheckModels();
    if (policy_ == nullptr) return std::move(out_);  // nothing can be encoded
    CheckStopStrings();
    begin_ = BootNow();
    auto* data = out_.mutable_effective_spec()->mutable_data();
    BATON_RETURN_IF_ERROR(CheckList("train_files", OptionsOf(spec_.kind(), spec_.data()),
                                    data->mutable_train_files()));
    BATON_RETURN_IF_ERROR(
        CheckList("val_files", OptionsOf(spec_.kind(), spec_.data()), data->mutable_val_files()));
    BATON_RETURN_IF_ERROR(CheckList("pretrain_files", OptionsOf(v1::JOB_KIND_SFT, spec_.data()),
                                    data->mutable_pretrain_files()));
    CheckKvCache();
    CheckTemplateTime();
    return std::move(out_);
  }

 private:
  void Fail(const std::string& field, absl::string_view what) {
    v1::FieldViolation* violation = out_.add_violations();
    violation->set_field(field);
    violation->set_description(std::string(what));
  }

  // One problem of a model that several roles share is told once.
  void FailModel(const NamedModel& named, const std::string& part, const absl::Status& status) {
    const std::string field = absl::StrCat(named.field, ".", part);
    absl::string_view what = status.message();
    absl::ConsumePrefix(&what, absl::StrCat("spec.model.", part, ": "));
    if (reported_.insert(std::string(what)).second) Fail(field, what);
  }

  void CheckModels() {
    for (const NamedModel& named : ModelsToCheck(out_.mutable_effective_spec())) {
      v1::ModelSpec model = *named.model;
      if (model.path().empty() && !model.has_init()) continue;  // the core says so
      if (!model.has_chat_template_date()) model.set_chat_template_date(today_);
      absl::StatusOr<std::shared_ptr<PolicySource>> source = PolicySource::Open(model, "");
      if (!source.ok()) {
        const absl::Status status = source.status();
        v1::ModelSpec plain = model;  // is it the template, or the model?
        plain.set_chat_template("none");
        source = PolicySource::Open(plain, "");
        FailModel(named,
                  source.ok()        ? "chat_template"
                  : model.has_init() ? "init"
                                     : "path",
                  status);
        if (!source.ok()) continue;
      } else {
        if (named.field == "spec.model") policy_ = *source;
        CheckTemplateSettings(named, **source);
      }
      if (named.field == "spec.judge.model") CheckQuestion(named, **source);
      if (model.path().empty()) continue;
      WarnOfFolder(named, **source);
      const absl::Status weights = engine::CheckWeights((*source)->directory(), named.head);
      if (!weights.ok()) FailModel(named, "path", weights);
    }
  }

  // Once for each folder, by the first setting that names it.
  void WarnOfFolder(const NamedModel& named, const PolicySource& source) {
    if (!warned_folders_.insert(source.directory()).second) return;
    std::vector<std::string> warnings = source.warnings();
    std::string tokenizer = tokenizer::ClassWarning(source.directory());
    if (tokenizer.empty()) tokenizer = source.tokenizer().warning();
    if (!tokenizer.empty()) warnings.push_back(tokenizer);
    absl::string_view setting = named.field;
    absl::ConsumePrefix(&setting, "spec.");
    for (const std::string& warning : warnings) {
      model_warnings_.push_back(absl::StrCat(setting, ".path: ", warning));
    }
  }

  // What the judge is asked, without the texts that its marks stand for.
  void CheckQuestion(const NamedModel& named, const PolicySource& judge) {
    const auto verdict = reward::Verdict::Create(
        {spec_.judge().template_(), spec_.judge().verdict(), {}, spec_.judge().neutral()});
    if (!verdict.ok()) return;  // the core says so
    tokenizer::RenderedText text;
    for (const auto& part : (*verdict)->Question("", "", "")) {
      if (part.is_template) text.AddTemplate(part.text);
    }
    if (text.text().empty()) return;  // the texts are all of it
    const auto question = judge.RenderQuestion(text);
    absl::Status status = question.status();
    if (status.ok()) status = judge.EncodePrompt(*question, 0).status();
    if (!status.ok()) FailModel(named, "chat_template", status);
  }

  // Stop strings that no response can contain.
  void CheckStopStrings() {
    if (spec_.kind() != v1::JOB_KIND_RL || spec_.rollout().stop().empty()) return;
    std::set<char> written;  // bytes of tokens
    size_t longest = 0;      // token, in bytes
    const tokenizer::Tokenizer& tokenizer = policy_->tokenizer();
    const int64_t ids = std::min(tokenizer.vocab_size(), policy_->config().vocab_size);
    for (int32_t id = 0; id < ids; ++id) {
      for (const absl::string_view token : {tokenizer.TokenBytes(id), tokenizer.AddedText(id)}) {
        written.insert(token.begin(), token.end());
        longest = std::max(longest, token.size());
      }
    }
    const auto tokens = static_cast<size_t>(std::max(1, spec_.data().max_response_length()));
    for (int i = 0; i < spec_.rollout().stop_size(); ++i) {
      const std::string& stop = spec_.rollout().stop(i);
      const std::string field = absl::StrCat("spec.rollout.stop[", i, "]");
      if (stop.size() > tokens * longest) {
        Fail(field, absl::StrCat("has ", stop.size(), " bytes, and data.max_response_length = ",
                                 tokens, " tokens of at most ", longest,
                                 " bytes cannot contain it; shorten or remove it"));
      } else if (std::any_of(stop.begin(), stop.end(),
                             [&](char c) { return written.count(c) == 0; })) {
        Fail(field, absl::StrCat("'", stop,
                                 "' has a character that no token of the model writes, so no "
                                 "response can contain it; remove it"));
      }
    }
  }

  // A setting that nothing reads would be dropped in silence. The day of a template that asks for
  // it goes into the spec, so that the job's prompts stay the same.
  void CheckTemplateSettings(const NamedModel& named, const PolicySource& source) {
    for (const auto& [key, value] : named.model->chat_template_kwargs().fields()) {
      if (source.TemplateReads(key)) continue;
      Fail(named.field + ".chat_template_kwargs",
           absl::StrCat("`", key,
                        "` is nowhere in the model's chat template, so it has no effect; "
                        "correct the name, or remove it"));
    }
    if (!named.model->has_chat_template_date() && source.TemplateReads("strftime_now")) {
      named.model->set_chat_template_date(today_);
    }
  }

  static constexpr uint64_t kNamedOverlong = 3;
  static constexpr size_t kUnreadNamed = 8;

  struct Counts {
    uint64_t prompts = 0;
    uint64_t overlong = 0;
    size_t longest = 0;     // tokens
    uint64_t named = 0;     // of those too long, with file and line
    uint64_t cut_back = 0;  // Demonstration::cut_back
    uint64_t joined = 0;    // Demonstration::joined_turns
    uint64_t unread = 0;    // lines with a key that the template does not read
    std::set<std::string> unread_keys;
    uint64_t cut = 0;                // Demonstration::cut, of those that stay
    uint64_t cut_out = 0;            // the same, of those that are left out
    uint64_t unchecked = 0;          // lines
    reward::NumericAnswers answers;  // of lists that rewards judge
  };

  absl::Status CheckList(const std::string& list, const DataSetOptions& options,
                         google::protobuf::RepeatedPtrField<std::string>* files) {
    const std::string field = "spec.data." + list;
    ProblemList problems;
    Counts counts;
    AddNumericRules(&counts.answers);
    std::vector<std::string> kept;
    for (int index = 0; index < files->size(); ++index) {
      const std::string& file = files->Get(index);
      BATON_ASSIGN_OR_RETURN(const std::set<size_t> left_out,
                             CheckFile(file, options, &counts, &problems));
      if (left_out.empty()) {
        kept.push_back(file);
        continue;
      }
      const auto rest = WriteWithout(file, left_out, absl::StrCat(list, "-", kept.size()));
      if (absl::IsResourceExhausted(rest.status())) {
        Fail(field, rest.status().message());
        return absl::OkStatus();
      }
      BATON_RETURN_IF_ERROR(rest.status());
      if (!rest->empty()) {
        kept.push_back(*rest);
      } else if (list == "train_files" && !spec_.data().train_mix().empty()) {
        Fail(absl::StrCat("spec.data.train_mix[", index, "]"),
             absl::StrCat(file, " has no prompt of at most data.max_prompt_length = ",
                          spec_.data().max_prompt_length(),
                          " tokens; raise it, or remove the file and this entry"));
      }
    }
    const int limit = spec_.data().max_prompt_length();
    if (counts.overlong > 0 && !spec_.data().filter_overlong_prompts()) {
      Fail(field, absl::StrCat(counts.overlong, " of ", counts.prompts,
                               " prompts have more than data.max_prompt_length = ", limit,
                               " tokens, the longest ", counts.longest,
                               "; raise it, shorten them, or set data.filter_overlong_prompts: "
                               "true to leave them out"));
    }
    if (counts.overlong > 0 && counts.overlong == counts.prompts &&
        spec_.data().filter_overlong_prompts()) {
      Fail(field, absl::StrCat("all ", counts.prompts,
                               " prompts have more than data.max_prompt_length = ", limit,
                               " tokens, the longest ", counts.longest, "; raise it"));
    }
    if (counts.cut_out > 0 && counts.cut_out + counts.overlong >= counts.prompts) {
      Fail(field, absl::StrCat("no line is left: ", counts.cut_out,
                               " responses have more than data.max_response_length = ",
                               spec_.data().max_response_length(), " tokens; raise it"));
    }
    for (const std::string& problem : std::move(problems).Take()) Fail(field, problem);
    const double most = WithDefaults(spec_.reward()).max_error_rate();
    for (const auto& [rule, problem] : counts.answers.Problems(most)) Fail(rule, problem);
    if (counts.named > kNamedOverlong) {
      Fail(field, absl::StrCat("… and ", counts.named - kNamedOverlong, " more that are too long"));
    }
    const std::vector<std::string> warnings = std::exchange(model_warnings_, {});
    if (counts.overlong + counts.cut_back + counts.joined + counts.cut + counts.cut_out +
                counts.unchecked + counts.unread ==
            0 &&
        warnings.empty()) {
      return absl::OkStatus();
    }
    v1::DataFilesSummary* summary = out_.add_data_files();
    summary->set_list(list);
    summary->set_overlong_prompts(counts.overlong);
    summary->set_prompts_cut_back(counts.cut_back);
    summary->set_joined_turns(counts.joined);
    summary->set_lines_with_unread_keys(counts.unread);
    summary->set_unread_keys(Quoted(counts.unread_keys));
    summary->set_cut_responses(counts.cut);
    summary->set_overlong_responses(counts.cut_out);
    summary->set_unchecked_lines(counts.unchecked);
    summary->mutable_model_warnings()->Assign(warnings.begin(), warnings.end());
    unchecked_ += counts.unchecked;
    files->Assign(kept.begin(), kept.end());
    return absl::OkStatus();
  }

  // Large files take long. But a template that takes long would hold the job's workers as well.
  void CheckTemplateTime() {
    const absl::Duration all = BootNow() - begin_;
    if (unchecked_ == 0 || rendering_ * 2 < all || rendered_ == 0) return;
    Fail("spec.model.chat_template",
         absl::StrCat(
             "the check of the data had no time for ", unchecked_,
             " lines, since the template takes ",
             absl::FormatDuration(absl::Trunc(rendering_ / rendered_, absl::Microseconds(1))),
             " for a prompt; make it simpler, or use fewer or shorter messages"));
  }

  // The longest prompt that is generated for, with the longest response to it.
  void CheckKvCache() {
    if (spec_.kind() != v1::JOB_KIND_RL || !spec_.rollout().has_kv_cache_bytes()) return;
    ModelConfig slice = policy_->config();
    slice.num_key_value_heads /= std::max(1, spec_.rollout().tensor_model_parallel_size());
    // The last token of a response is drawn but never computed.
    const int64_t blocks =
        engine::KvCache::BlocksFor(longest_prompt_) +
        engine::KvCache::BlocksFor(std::max(0, spec_.data().max_response_length() - 1));
    const int64_t bytes =
        blocks * engine::KvCache::BlockBytes(slice, policy_->dtype(), torch::kCPU);
    if (bytes <= spec_.rollout().kv_cache_bytes()) return;
    Fail("spec.rollout.kv_cache_bytes",
         absl::StrCat(spec_.rollout().kv_cache_bytes(), " bytes do not hold the longest prompt (",
                      longest_prompt_, " tokens) with a response of data.max_response_length = ",
                      spec_.data().max_response_length(), ", which take ", bytes, "; raise it"));
  }

  void AddNumericRules(reward::NumericAnswers* answers) const {
    for (int i = 0; i < spec_.reward().rules_size(); ++i) {
      const v1::RewardRule& rule = spec_.reward().rules(i);
      const auto& sources = rule.when().source();
      if (rule.type() != "numeric") continue;
      answers->AddRule(absl::StrCat("spec.reward.rules[", i, "]"),
                       {sources.begin(), sources.end()});
    }
  }

  // The numbers of the lines to leave out.
  absl::StatusOr<std::set<size_t>> CheckFile(const std::string& file, const DataSetOptions& options,
                                             Counts* counts, ProblemList* problems) {
    std::set<size_t> left_out;
    auto lines = LineReader::Open(file);
    if (!lines.ok()) return Annotate(lines.status(), file);
    while (lines->Next()) {
      if (BootNow() >= begin_ + time_) {
        ++counts->unchecked;
        continue;
      }
      const auto example = ParseExample(lines->line(), options);
      if (!example.ok()) continue;                                      // the controller names it
      if (example->weightless) continue;                                // it is left out
      if (options.needs_response && example->label == false) continue;  // it is left out
      const Looked looked = CheckExample(*example, options, counts);
      if (looked.leave_out) {
        left_out.insert(lines->number());
      } else if (!options.needs_response && !options.needs_pair && example->has_answer) {
        counts->answers.Add(example->answer, example->source,
                            absl::StrCat(file, ":", lines->number()));
      }
      // The sum says it of all of them.
      if (looked.overlong && counts->named++ >= kNamedOverlong) continue;
      if (!looked.problem.ok()) {
        problems->AddLine(file, lines->number(), looked.problem.message());
      }
    }
    if (!lines->status().ok()) return Annotate(lines->status(), file);
    return left_out;
  }

  struct Looked {
    absl::Status problem;
    bool overlong = false;   // the problem: the prompt is too long
    bool leave_out = false;  // it is no problem
  };
  Looked CheckExample(const Example& example, const DataSetOptions& options, Counts* counts) {
    ++counts->prompts;
    CountUnread(example, counts);
    Looked looked;
    const auto tokens = PromptTokens(example);
    looked.problem = tokens.status();
    if (!tokens.ok()) return looked;
    const auto limit = static_cast<size_t>(spec_.data().max_prompt_length());
    if (*tokens > limit) {
      ++counts->overlong;
      counts->longest = std::max(counts->longest, *tokens);
      looked.leave_out = spec_.data().filter_overlong_prompts();
      looked.overlong = !looked.leave_out;
      if (looked.overlong) {
        looked.problem = absl::InvalidArgumentError(
            absl::StrCat("the prompt has ", *tokens, " tokens, more than ", limit));
      }
      return looked;
    }
    longest_prompt_ = std::max(longest_prompt_, static_cast<int64_t>(*tokens));
    bool cut = false;
    looked.problem = CheckResponses(example, options, counts, &cut);
    if (!looked.problem.ok() || !cut) return looked;
    looked.leave_out = spec_.data().filter_overlong_responses();
    ++(looked.leave_out ? counts->cut_out : counts->cut);
    return looked;
  }

  void CountUnread(const Example& example, Counts* counts) const {
    bool unread = false;
    const bool rendered = !example.messages.empty();
    for (const std::string& key : KeysForTemplate(example)) {
      if (rendered && ReadsKey(key)) continue;
      unread = true;
      if (counts->unread_keys.size() < kUnreadNamed) counts->unread_keys.insert(CutText(key, 64));
    }
    counts->unread += unread ? 1 : 0;
  }

  // The template may read a turn's reasoning by another of its names.
  bool ReadsKey(const std::string& key) const {
    const auto reads = [this](const char* field) { return policy_->TemplateReads(field); };
    const auto begin = std::begin(kReasoningFields), end = std::end(kReasoningFields);
    if (std::find(begin, end, key) == end) return policy_->TemplateReads(key);
    return std::any_of(begin, end, reads);
  }

  static std::string Quoted(const std::set<std::string>& keys) {
    return absl::StrJoin(keys, ", ", [](std::string* out, const std::string& key) {
      absl::StrAppend(out, "`", key, "`");
    });
  }

  absl::StatusOr<policy::Prompt> Render(const Example& example) {
    const absl::Time begin = BootNow();
    auto prompt = policy::RenderPromptOf(*policy_, example.messages, example.prompt,
                                         example.tools_json, example.chat_template_kwargs_json);
    rendering_ += BootNow() - begin;
    ++rendered_;
    return prompt;
  }

  absl::StatusOr<size_t> PromptTokens(const Example& example) {
    BATON_ASSIGN_OR_RETURN(const policy::Prompt prompt, Render(example));
    BATON_ASSIGN_OR_RETURN(const auto tokens, policy_->EncodePrompt(prompt, 0));
    return tokens.size();
  }

  // Responses that are trained on; `cut`: one of them loses its end.
  absl::Status CheckResponses(const Example& example, const DataSetOptions& options, Counts* counts,
                              bool* cut) {
    if (!options.needs_response && !options.needs_pair) return absl::OkStatus();
    const int limit = response_limits_.max_response_length();
    BATON_ASSIGN_OR_RETURN(const policy::Prompt prompt, Render(example));
    BATON_ASSIGN_OR_RETURN(const auto whole,
                           policy::EncodeResponse(*policy_, prompt, example.response,
                                                  example.response_messages, response_limits_));
    counts->cut_back += whole.cut_back ? 1 : 0;
    counts->joined += whole.joined_turns ? 1 : 0;
    *cut = whole.cut;
    if (!example.has_rejected()) return absl::OkStatus();
    std::vector<v1::ChatMessage> turns;
    if (example.rejected_message.has_value()) turns.push_back(*example.rejected_message);
    BATON_ASSIGN_OR_RETURN(
        const auto rejected,
        policy::EncodeResponse(*policy_, prompt, example.rejected, turns, response_limits_));
    *cut = *cut || rejected.cut;
    if (*cut && spec_.data().filter_overlong_responses()) return absl::OkStatus();
    if (whole.prompt != rejected.prompt || whole.response != rejected.response) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "`chosen` and `rejected` are equal after cutting to data.max_response_length = ", limit,
        " tokens; raise it or remove the line"));
  }

  // The path of a copy of `file` without the lines of `numbers`; empty when no line is left.
  absl::StatusOr<std::string> WriteWithout(const std::string& file, const std::set<size_t>& numbers,
                                           const std::string& folder) {
    if (filtered_folder_.empty()) {
      return absl::InvalidArgumentError(
          "leaving out lines needs a folder for what is left, and the request names none");
    }
    const std::filesystem::path path =
        std::filesystem::path(filtered_folder_) / folder / std::filesystem::path(file).filename();
    std::error_code code;
    std::filesystem::create_directories(path.parent_path(), code);
    auto lines = LineReader::Open(file);
    if (!lines.ok()) return Annotate(lines.status(), file);
    std::ofstream out(path, std::ios::binary);
    bool any = false;
    while (lines->Next()) {
      if (numbers.count(lines->number()) > 0) continue;
      if (lines->line().size() >= room_) return NoRoom();
      room_ -= lines->line().size() + 1;
      out << lines->line() << '\n';
      any = true;
    }
    out.close();
    if (!out) {
      return absl::ResourceExhaustedError(
          absl::StrCat(path.string(),
                       " cannot be written; is the disk full, or is the file larger than 8 GiB?"));
    }
    return any ? path.string() : "";
  }

  static absl::Status NoRoom() {
    return absl::ResourceExhaustedError(
        "what is left of the files does not fit into the room that the project has for uploads, "
        "beside uploads and other checks that are under way; submit again when those are done, "
        "leave out the lines that are too long yourself, delete jobs whose data are not needed any "
        "more, or have the limit raised (`baton project set`)");
  }

  const v1::JobSpec& spec_;
  const std::string filtered_folder_;
  const std::string today_ = policy::TemplateDateOfToday();
  v1::DataSpec response_limits_;  // prompts are counted apart
  const absl::Duration time_;     // for reading data
  absl::Time begin_;              // of that
  absl::Duration rendering_;
  int64_t rendered_ = 0;    // prompts
  uint64_t unchecked_ = 0;  // lines
  uint64_t room_;           // bytes that may be written there still
  v1::ValidateJobResponse out_;
  std::shared_ptr<PolicySource> policy_;
  std::set<std::string> reported_;
  std::set<std::string> warned_folders_;
  std::vector<std::string> model_warnings_;  // to be told with the first list
  int64_t longest_prompt_ = 0;               // of those that are not too long
};

}  // namespace

absl::StatusOr<v1::ValidateJobResponse> CheckJob(const v1::JobSpec& spec,
                                                 const std::string& filtered_folder,
                                                 uint64_t filtered_bytes, absl::Duration time) {
  return Checking(spec, filtered_folder, filtered_bytes, time).Run();
}

}  // namespace baton
