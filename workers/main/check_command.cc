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
#include "absl/strings/strip.h"
#include "sdk/common/base/clock.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/data_set/data_set.h"
#include "workers/engine/kernels/kv_cache.h"
#include "workers/engine/scalar/check_weights.h"
#include "workers/policy/chat_messages.h"
#include "workers/policy/policy_source.h"
#include "workers/tokenizer/tokens/class_warning.h"

namespace baton {
namespace {

using engine::ScalarHead;
using policy::PolicySource;

/// A model of a spec, and what is asked of it.
struct NamedModel {
  std::string field;  ///< "spec.model", "spec.critic.model", …
  const v1::ModelSpec* model;
  ScalarHead head;
};

std::vector<NamedModel> ModelsToCheck(const v1::JobSpec& spec) {
  const bool scores = spec.kind() == v1::JOB_KIND_REWARD_MODEL;
  std::vector<NamedModel> out = {
      {"spec.model", &spec.model(), scores ? ScalarHead::kOptional : ScalarHead::kNone}};
  if (spec.has_critic()) {
    out.push_back({"spec.critic.model", &spec.critic().model(), ScalarHead::kOptional});
  }
  if (spec.has_cost_critic()) {
    out.push_back({"spec.cost_critic.model", &spec.cost_critic().model(), ScalarHead::kOptional});
  }
  if (spec.has_reference()) {
    out.push_back({"spec.reference.model", &spec.reference().model(), ScalarHead::kNone});
  }
  if (spec.has_reward_model()) {
    out.push_back({"spec.reward_model.model", &spec.reward_model().model(), ScalarHead::kRequired});
  }
  if (spec.has_cost_model()) {
    out.push_back({"spec.cost_model.model", &spec.cost_model().model(), ScalarHead::kRequired});
  }
  if (spec.has_judge()) {
    out.push_back({"spec.judge.model", &spec.judge().model(), ScalarHead::kNone});
  }
  return out;
}

class Checking {
 public:
  Checking(const v1::JobSpec& spec, const std::string& filtered_folder, uint64_t filtered_bytes,
           absl::Duration time)
      : spec_(spec),
        filtered_folder_(filtered_folder),
        time_(spec.data().filter_overlong_prompts() ? absl::InfiniteDuration() : time),
        room_(filtered_bytes) {
    *out_.mutable_effective_spec() = spec;
  }

  absl::StatusOr<v1::ValidateJobResponse> Run() {
    CheckModels();
    if (policy_ == nullptr) return std::move(out_);  // nothing can be encoded
    if (!policy_->directory().empty()) {
      tokenizer_warning_ = tokenizer::ClassWarning(policy_->directory());
    }
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
    for (const NamedModel& named : ModelsToCheck(spec_)) {
      const v1::ModelSpec& model = *named.model;
      if (model.path().empty() && !model.has_init()) continue;  // the core says so
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
      } else if (named.model == &spec_.model()) {
        policy_ = *source;
      }
      if (model.path().empty()) continue;
      const absl::Status weights = engine::CheckWeights((*source)->directory(), named.head);
      if (!weights.ok()) FailModel(named, "path", weights);
    }
  }

  static constexpr uint64_t kNamedOverlong = 3;

  struct Counts {
    uint64_t prompts = 0;
    uint64_t overlong = 0;
    size_t longest = 0;      // tokens
    uint64_t named = 0;      // of those too long, with file and line
    uint64_t cut_back = 0;   // Demonstration::cut_back
    uint64_t unchecked = 0;  // lines
  };

  absl::Status CheckList(const std::string& list, const DataSetOptions& options,
                         google::protobuf::RepeatedPtrField<std::string>* files) {
    const std::string field = "spec.data." + list;
    ProblemList problems;
    Counts counts;
    std::vector<std::string> kept;
    for (int index = 0; index < files->size(); ++index) {
      const std::string& file = files->Get(index);
      BATON_ASSIGN_OR_RETURN(const std::set<size_t> overlong,
                             CheckFile(file, options, &counts, &problems));
      if (overlong.empty() || !spec_.data().filter_overlong_prompts()) {
        kept.push_back(file);
        continue;
      }
      const auto rest = WriteWithout(file, overlong, absl::StrCat(list, "-", kept.size()));
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
    for (const std::string& problem : std::move(problems).Take()) Fail(field, problem);
    if (counts.named > kNamedOverlong) {
      Fail(field, absl::StrCat("… and ", counts.named - kNamedOverlong, " more that are too long"));
    }
    const std::string warning = std::exchange(tokenizer_warning_, "");
    if (counts.overlong == 0 && counts.cut_back == 0 && counts.unchecked == 0 && warning.empty()) {
      return absl::OkStatus();
    }
    v1::DataFilesSummary* summary = out_.add_data_files();
    summary->set_list(list);
    summary->set_overlong_prompts(counts.overlong);
    summary->set_prompts_cut_back(counts.cut_back);
    summary->set_unchecked_lines(counts.unchecked);
    summary->set_tokenizer_warning(warning);
    unchecked_ += counts.unchecked;
    if (counts.overlong > 0) files->Assign(kept.begin(), kept.end());
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

  // The numbers of the lines whose prompts are too long.
  absl::StatusOr<std::set<size_t>> CheckFile(const std::string& file, const DataSetOptions& options,
                                             Counts* counts, ProblemList* problems) {
    std::set<size_t> overlong;
    auto lines = LineReader::Open(file);
    if (!lines.ok()) return Annotate(lines.status(), file);
    const auto limit = static_cast<size_t>(spec_.data().max_prompt_length());
    while (lines->Next()) {
      if (BootNow() >= begin_ + time_) {
        ++counts->unchecked;
        continue;
      }
      const auto example = ParseExample(lines->line(), options);
      if (!example.ok()) continue;                                      // the controller names it
      if (example->weightless) continue;                                // it is left out
      if (options.needs_response && example->label == false) continue;  // it is left out
      ++counts->prompts;
      const auto tokens = PromptTokens(*example);
      absl::Status status = tokens.status();
      if (tokens.ok() && *tokens > limit) {
        overlong.insert(lines->number());
        counts->longest = std::max(counts->longest, *tokens);
        if (spec_.data().filter_overlong_prompts()) continue;
        status = absl::InvalidArgumentError(
            absl::StrCat("the prompt has ", *tokens, " tokens, more than ", limit));
      }
      if (status.ok()) longest_prompt_ = std::max(longest_prompt_, static_cast<int64_t>(*tokens));
      if (status.ok()) status = CheckResponses(*example, options, counts);
      // The sum says it of all of them.
      if (tokens.ok() && *tokens > limit && counts->named++ >= kNamedOverlong) continue;
      if (!status.ok()) problems->AddLine(file, lines->number(), status.message());
    }
    if (!lines->status().ok()) return Annotate(lines->status(), file);
    counts->overlong += overlong.size();
    return overlong;
  }

  absl::StatusOr<policy::Prompt> Render(const Example& example) {
    const absl::Time begin = BootNow();
    auto prompt =
        policy::RenderPromptOf(*policy_, example.messages, example.prompt, example.tools_json);
    rendering_ += BootNow() - begin;
    ++rendered_;
    return prompt;
  }

  absl::StatusOr<size_t> PromptTokens(const Example& example) {
    BATON_ASSIGN_OR_RETURN(const policy::Prompt prompt, Render(example));
    BATON_ASSIGN_OR_RETURN(const auto tokens, policy_->EncodePrompt(prompt, 0));
    return tokens.size();
  }

  // Responses that are trained on.
  absl::Status CheckResponses(const Example& example, const DataSetOptions& options,
                              Counts* counts) {
    if (!options.needs_response && !options.needs_pair) return absl::OkStatus();
    const int limit = spec_.data().max_response_length();
    BATON_ASSIGN_OR_RETURN(const policy::Prompt prompt, Render(example));
    BATON_ASSIGN_OR_RETURN(const auto whole,
                           policy_->EncodeDemonstration(prompt, example.response, 0, limit));
    counts->cut_back += whole.cut_back ? 1 : 0;
    if (example.rejected.empty()) return absl::OkStatus();
    BATON_ASSIGN_OR_RETURN(const auto rejected,
                           policy_->EncodeDemonstration(prompt, example.rejected, 0, limit));
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
          "data.filter_overlong_prompts needs a folder for what is left, and the request names "
          "none");
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
        "what data.filter_overlong_prompts leaves of the files does not fit into the room that the "
        "project has for uploads, beside uploads and other checks that are under way; submit again "
        "when those are done, leave out the prompts that are too long yourself, delete jobs whose "
        "data are not needed any more, or have the limit raised (`baton project set`)");
  }

  const v1::JobSpec& spec_;
  const std::string filtered_folder_;
  const absl::Duration time_;  // for reading data
  absl::Time begin_;           // of that
  absl::Duration rendering_;
  int64_t rendered_ = 0;    // prompts
  uint64_t unchecked_ = 0;  // lines
  uint64_t room_;           // bytes that may be written there still
  v1::ValidateJobResponse out_;
  std::shared_ptr<PolicySource> policy_;
  std::set<std::string> reported_;
  std::string tokenizer_warning_;  // to be told with the first list
  int64_t longest_prompt_ = 0;     // of those that are not too long
};

}  // namespace

absl::StatusOr<v1::ValidateJobResponse> CheckJob(const v1::JobSpec& spec,
                                                 const std::string& filtered_folder,
                                                 uint64_t filtered_bytes, absl::Duration time) {
  return Checking(spec, filtered_folder, filtered_bytes, time).Run();
}

}  // namespace baton
