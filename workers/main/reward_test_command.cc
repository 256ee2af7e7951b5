#include "workers/main/reward_test_command.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "nlohmann/json.hpp"
#include "sdk/common/base/clock.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/base/utf8.h"
#include "sdk/common/data_set/answer_use.h"
#include "sdk/common/data_set/data_set.h"
#include "sdk/common/data_set/line_counts.h"
#include "sdk/common/messages/settings.h"
#include "workers/main/generate_command.h"
#include "workers/main/judge_reward.h"
#include "workers/policy/chat_messages.h"
#include "workers/policy/policy_source.h"
#include "workers/policy/template_settings.h"
#include "workers/reward/weighted_reward.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kAtOnce = 4;  // as many as a job sends to one process of a command
constexpr size_t kShownBytes = 400;

// Lines that a script has to cope with, and a rule too.
constexpr absl::string_view kMadeUpLines[] = {
    R"({"prompt": "2+2=", "answer": "4", "response": "4"})",
    R"({"prompt": "2+2=", "answer": "4", "response": "I think it is 5."})",
    R"({"prompt": "2+2=", "answer": "4", "response": ""})",
    R"({"prompt": [{"role": "user", "content": "2+2="}], "answer": "4", "response": "Vier – 四\n4"})",
};

constexpr char kAnswerTaken[] = "the line's answer, since it has no `response`";
constexpr char kNothingTaken[] = "nothing, since the line has no `response` and no answer";

/// One response to score.
struct Case {
  std::string place;  // "prompts.jsonl:3"
  std::string from;   // where the response is from
  reward::RewardInput input;
  reward::RewardResult result;
  double seconds = 0;
};

struct Line {
  std::string place;
  std::string text;
};

absl::StatusOr<std::vector<Line>> ReadLines(const std::string& file, int64_t most) {
  std::vector<Line> lines;
  if (file.empty()) {
    for (const absl::string_view line : kMadeUpLines) {
      lines.push_back({absl::StrCat("made up ", lines.size() + 1), std::string(line)});
    }
    return lines;
  }
  absl::StatusOr<LineReader> reader = LineReader::Open(file);
  if (!reader.ok()) return Annotate(reader.status(), file);
  while (static_cast<int64_t>(lines.size()) < most && reader->Next()) {
    lines.push_back({absl::StrCat(file, ":", reader->number()), reader->line()});
  }
  if (!reader->status().ok()) return Annotate(reader->status(), file);
  if (lines.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": holds no line; give one JSON object a line"));
  }
  return lines;
}

/// The way the job reads a line; made-up lines have the usual keys.
DataSetOptions OptionsOfLines(const RewardTestOptions& options) {
  if (options.data.empty()) return {};
  DataSetOptions keys = OptionsOf(v1::JOB_KIND_RL, options.spec.data());
  v1::JobSpec spec = options.spec;
  spec.set_kind(v1::JOB_KIND_RL);  // of a script there is no kind
  keys.answer_uses = AnswerUses(spec, spec.dataflow());
  return keys;
}

/// The lines with `responses` that the model gives.
absl::StatusOr<std::vector<Line>> Sample(const RewardTestOptions& options,
                                         std::vector<Line> lines) {
  GenerateOptions generate;
  generate.model = options.model.empty() ? options.spec.model().path() : options.model;
  if (generate.model.empty()) {
    return absl::InvalidArgumentError(
        "--samples: there is no model to sample from: a script names none, and model.init has "
        "random weights; "
        "give --model with a Hugging Face directory");
  }
  std::string folder = std::filesystem::temp_directory_path() / "baton-reward-test-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot make the folder ", folder));
  }
  const auto remove = absl::MakeCleanup([&] {
    std::error_code code;
    std::filesystem::remove_all(folder, code);
  });
  generate.prompts = folder + "/prompts.jsonl";
  generate.keys = OptionsOfLines(options);
  generate.out = folder + "/responses.jsonl";
  std::ofstream prompts(generate.prompts);
  for (const Line& line : lines) prompts << line.text << "\n";
  prompts.close();
  if (options.spec.model().has_chat_template()) {
    generate.chat_template = options.spec.model().chat_template();
  }
  generate.chat_template_kwargs = options.spec.model().chat_template_kwargs();
  generate.chat_template_date = options.spec.model().chat_template_date();
  if (options.spec.data().has_max_response_length()) {
    generate.max_new_tokens = options.spec.data().max_response_length();
  }
  const v1::RolloutSpec& rollout = options.spec.rollout();
  if (rollout.has_temperature()) generate.temperature = rollout.temperature();
  if (rollout.has_top_p()) generate.top_p = rollout.top_p();
  if (rollout.has_top_k()) generate.top_k = rollout.top_k();
  generate.samples = options.samples;
  generate.seed = options.seed;
  generate.device = options.device;
  BATON_RETURN_IF_ERROR(GenerateFile(generate, [](const BatchProgress&, int64_t) {}));
  BATON_ASSIGN_OR_RETURN(std::vector<Line> sampled,
                         ReadLines(generate.out, static_cast<int64_t>(lines.size())));
  for (size_t i = 0; i < sampled.size(); ++i) lines[i].text = std::move(sampled[i].text);
  return lines;
}

/// What the chat template of the job's model begins the response to a prompt with.
class PromptSuffixes {
 public:
  PromptSuffixes(const RewardTestOptions& options, const RewardTestOutput& output)
      : output_(output), model_(options.spec.model()) {
    if (!options.model.empty()) model_.set_path(options.model);
    if (!model_.has_chat_template_date())
      model_.set_chat_template_date(policy::TemplateDateOfToday());
    const v1::RewardSpec& reward = options.spec.reward();
    decisive_ = reward.with_prompt_suffix() ||
                absl::StrContains(options.spec.judge().template_(), "{prompt_suffix}");
    read_ = decisive_ || !reward.command().empty();
  }

  /// "" where no part of the reward reads it. Where only a command may read it, it is also "" if
  /// the model cannot be read here, which the output hears once.
  absl::StatusOr<std::string> Of(const Example& example) {
    const bool templated = !example.messages.empty() ||
                           (model_.has_chat_template() && model_.chat_template() != "auto");
    if (!read_ || !templated || model_.path().empty() || model_.chat_template() == "none") {
      return std::string();
    }
    if (source_ == nullptr) BATON_RETURN_IF_ERROR(Open());
    if (source_ == nullptr) return std::string();
    BATON_ASSIGN_OR_RETURN(
        const policy::Prompt prompt,
        policy::RenderPromptOf(*source_, example.messages, example.prompt, example.tools_json,
                               example.chat_template_kwargs_json));
    return source_->PromptSuffix(prompt);
  }

 private:
  absl::Status Open() {
    auto source = policy::PolicySource::Open(model_, "");
    if (source.ok()) {
      source_ = *std::move(source);
      return absl::OkStatus();
    }
    constexpr char kRemedy[] = "give the model's folder with --model";
    if (decisive_) {
      return Annotate(
          source.status(),
          absl::StrCat("what the chat template begins responses with is scored; ", kRemedy));
    }
    output_.err(absl::StrCat("baton: the command gets an empty prompt_suffix here, because ",
                             source.status().message(), "; ", kRemedy, "\n"));
    read_ = false;
    return absl::OkStatus();
  }

  const RewardTestOutput& output_;
  v1::ModelSpec model_;
  bool decisive_ = false;  // it decides what is scored
  bool read_ = false;
  std::unique_ptr<policy::PolicySource> source_;
};

absl::StatusOr<std::vector<Case>> CasesOf(const RewardTestOptions& options, const Line& line,
                                          const DataSetOptions& keys, LineCounts* counts,
                                          PromptSuffixes* suffixes) {
  absl::StatusOr<Example> example = ParseExample(line.text, keys);
  if (!example.ok()) return Annotate(example.status(), line.place);
  if (const absl::Status added = counts->Add(*example, line.text, line.place); !added.ok()) {
    return Annotate(added, line.place);
  }
  absl::StatusOr<std::string> suffix = suffixes->Of(*example);
  if (!suffix.ok()) return Annotate(suffix.status(), line.place);
  Case one;
  one.input.prompt_suffix = *std::move(suffix);
  one.place = line.place;
  one.input.prompt = example->PromptText();
  for (const v1::ChatMessage& message : example->messages) {
    one.input.messages.push_back({message.role(), message.content()});
  }
  one.input.answer = example->answer;
  one.input.unanswered = !example->has_answer;
  one.input.source = example->source;
  one.input.extra = example->extra_json;
  std::vector<std::string> responses;
  const Json json = Json::parse(line.text);  // which ParseExample could read
  if (const auto given = json.find("responses"); given != json.end() && given->is_array()) {
    one.from = options.samples > 0 ? "sampled" : "of the line's `responses`";
    for (const Json& response : *given) {
      if (response.is_string()) responses.push_back(response.get<std::string>());
    }
  } else if (json.contains(keys.response_key.empty() ? "response" : keys.response_key) ||
             !example->response.empty()) {
    one.from = "the line's `response`";
    responses.push_back(example->response);
  } else {
    one.from = example->has_answer ? kAnswerTaken : kNothingTaken;
    responses.push_back(example->answer);
  }
  std::vector<Case> cases;
  for (const std::string& response : responses) {
    cases.push_back(one);
    cases.back().input.response = absl::StrCat(
        options.spec.reward().with_prompt_suffix() ? one.input.prompt_suffix : "", response);
  }
  return cases;
}

absl::StatusOr<std::vector<Case>> AllCases(const RewardTestOptions& options,
                                           const std::vector<Line>& lines,
                                           const RewardTestOutput& output) {
  const DataSetOptions keys = OptionsOfLines(options);
  LineCounts counts(keys);
  PromptSuffixes suffixes(options, output);
  std::vector<Case> cases;
  for (const Line& line : lines) {
    BATON_ASSIGN_OR_RETURN(const std::vector<Case> of_line,
                           CasesOf(options, line, keys, &counts, &suffixes));
    cases.insert(cases.end(), of_line.begin(), of_line.end());
  }
  const std::vector<std::string> problems = counts.Problems();
  if (problems.empty()) return cases;
  return absl::InvalidArgumentError(
      absl::StrCat(options.data, ": ", absl::StrJoin(problems, "\n")));
}

absl::StatusOr<std::unique_ptr<reward::RewardFunction>> MakeTested(const RewardTestOptions& options,
                                                                   const CommandSinks& sinks) {
  const v1::JobSpec& spec = options.spec;
  const bool rewards = spec.reward().rules_size() > 0 || !spec.reward().command().empty();
  std::vector<reward::WeightedPart> parts;
  if (rewards) {
    reward::WeightedPart part;
    part.name = "reward";
    BATON_ASSIGN_OR_RETURN(part.function, MakeReward(spec.reward(), options.commands, sinks));
    parts.push_back(std::move(part));
  }
  if (spec.has_judge()) {
    reward::WeightedPart part;
    part.name = "judge";
    part.weight = spec.judge().has_weight() ? spec.judge().weight() : 1;
    v1::JudgeSpec judge = spec.judge();
    if (!judge.has_model()) *judge.mutable_model() = spec.model();  // as in a job
    BATON_ASSIGN_OR_RETURN(part.function, MakeJudgeReward(judge, options.device));
    parts.push_back(std::move(part));
  }
  if (parts.empty()) {
    return absl::InvalidArgumentError(
        "spec.reward: there is nothing to test here; this command runs `rules`, a `command` and a "
        "`judge`. A `method` of a worker of your own, or a reward model, runs in a job");
  }
  if (parts.size() == 1) return std::move(parts.front().function);
  return reward::CreateWeightedReward(std::move(parts));
}

/// Scores all, several at once. The error of a function that can score nothing any more.
absl::Status ScoreAll(reward::RewardFunction* function, std::vector<Case>* cases) {
  std::atomic<size_t> next{0};
  std::vector<absl::Status> ended(kAtOnce);
  std::vector<std::thread> threads;
  for (int t = 0; t < kAtOnce; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = next++; i < cases->size(); i = next++) {
        Case& one = (*cases)[i];
        const absl::Time begin = BootNow();
        auto result = function->Score(one.input);
        one.seconds = absl::ToDoubleSeconds(BootNow() - begin);
        if (result.ok()) {
          one.result = *std::move(result);
        } else {
          ended[t] = result.status();
          one.result.error = std::string(result.status().message());
          one.result.infra_failed = true;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : ended) BATON_RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

/// On one line, and not too long.
std::string Shown(absl::string_view text) {
  std::string out = absl::StrReplaceAll(ReplaceInvalidUtf8(text), {{"\n", "\\n"}, {"\t", "\\t"}});
  if (out.size() > kShownBytes) {
    out.resize(ValidUtf8Prefix(absl::string_view(out).substr(0, kShownBytes)));
    absl::StrAppend(&out, "… (", text.size(), " bytes)");
  }
  return out.empty() ? "(empty)" : out;
}

std::string Number(double value) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.6g", value);
  return text;
}

std::string Seconds(double seconds) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.3f s", seconds);
  return text;
}

std::string TextOf(const Case& one) {
  std::string out =
      absl::StrCat(one.place, "\n  prompt    ", Shown(one.input.prompt), "\n  response  ",
                   Shown(one.input.response), "  [", one.from, "]\n  answer    ",
                   one.input.unanswered ? "(none)" : Shown(one.input.answer), "\n");
  if (!one.input.source.empty()) {
    absl::StrAppend(&out, "  source    ", Shown(one.input.source), "\n");
  }
  if (!one.input.extra.empty()) absl::StrAppend(&out, "  extra     ", Shown(one.input.extra), "\n");
  if (!one.input.prompt_suffix.empty()) {
    absl::StrAppend(&out, "  suffix    ", Shown(one.input.prompt_suffix),
                    "  [the prompt's, by the chat template]\n");
  }
  if (!one.result.error.empty()) {
    absl::StrAppend(&out, "  ERROR     ",
                    absl::StrReplaceAll(one.result.error, {{"\n", "\n            "}}), "\n");
  } else {
    absl::StrAppend(&out, "  reward    ", Number(one.result.reward), "\n");
    for (const auto& [name, value] : one.result.scores) {
      absl::StrAppend(&out, "  score     ", name, " ", Number(value), "\n");
    }
  }
  if (!one.result.note.empty()) {
    absl::StrAppend(&out, "  note      ", Shown(one.result.note), "\n");
  }
  absl::StrAppend(&out, "  time      ", Seconds(one.seconds), "\n");
  return out;
}

std::string JsonOf(const Case& one) {
  Json json = {{"place", one.place},
               {"prompt", one.input.prompt},
               {"response", one.input.response},
               {"answer", one.input.answer},
               {"seconds", one.seconds}};
  if (!one.input.prompt_suffix.empty()) json["prompt_suffix"] = one.input.prompt_suffix;
  if (one.result.error.empty()) {
    json["reward"] = one.result.reward;
    for (const auto& [name, value] : one.result.scores) json["scores"][name] = value;
    if (!one.result.note.empty()) json["note"] = one.result.note;
  } else {
    json["error"] = one.result.error;
    json["infra_failed"] = one.result.infra_failed;
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string Summary(const std::vector<Case>& cases, size_t failed, double max_error_rate) {
  double sum = 0, low = 0, high = 0, slowest = 0;
  size_t scored = 0;
  for (const Case& one : cases) {
    slowest = std::max(slowest, one.seconds);
    if (!one.result.error.empty()) continue;
    low = scored == 0 ? one.result.reward : std::min(low, one.result.reward);
    high = scored == 0 ? one.result.reward : std::max(high, one.result.reward);
    sum += one.result.reward;
    ++scored;
  }
  std::string out = absl::StrCat(cases.size(), cases.size() == 1 ? " response: " : " responses: ");
  if (scored > 0) {
    absl::StrAppend(&out, scored, " with a reward (mean ",
                    Number(sum / static_cast<double>(scored)), ", from ", Number(low), " to ",
                    Number(high), "), ");
  }
  absl::StrAppend(&out, failed, " failed; the slowest took ", Seconds(slowest), "\n");
  const bool of_answers = std::all_of(cases.begin(), cases.end(),
                                      [](const Case& one) { return one.from == kAnswerTaken; });
  if (scored > 1 && low == high && of_answers) {
    absl::StrAppend(&out,
                    "Each line's answer was taken for the response, and all rewards are equal. See "
                    "what wrong responses get: give lines a `response`, or use --samples.\n");
  } else if (scored > 1 && low == high) {
    absl::StrAppend(&out,
                    "All rewards are equal. In a job that would be nothing to learn from; "
                    "try responses that are right and wrong.\n");
  }
  if (failed > 0) {
    const double rate = static_cast<double>(failed) / static_cast<double>(cases.size());
    absl::StrAppend(
        &out, rate > max_error_rate + 1e-9 ? "A job would fail: " : "A job would go on: ", failed,
        " of ", cases.size(), " failed, and reward.max_error_rate is ", Number(max_error_rate),
        ".\n");
  }
  return out;
}

}  // namespace

absl::StatusOr<bool> TestReward(const RewardTestOptions& options, const RewardTestOutput& output) {
  BATON_ASSIGN_OR_RETURN(std::vector<Line> lines, ReadLines(options.data, options.lines));
  if (options.samples > 0) {
    BATON_ASSIGN_OR_RETURN(lines, Sample(options, std::move(lines)));
  }
  BATON_ASSIGN_OR_RETURN(std::vector<Case> cases, AllCases(options, lines, output));
  CommandSinks sinks;
  sinks.stderr_sink = [&](absl::string_view line) {
    output.err(absl::StrCat("stderr: ", line, "\n"));
  };
  sinks.trouble_sink = [&](absl::string_view text) {
    const std::vector<absl::string_view> parts = absl::StrSplit(text, '\n');
    if (!text.empty()) output.err(absl::StrCat("baton: ", parts.front(), "\n"));
  };
  BATON_ASSIGN_OR_RETURN(const auto function, MakeTested(options, sinks));
  const absl::Status ended = ScoreAll(function.get(), &cases);
  size_t failed = 0;
  for (const Case& one : cases) {
    failed += one.result.error.empty() ? 0 : 1;
    output.out(options.json ? JsonOf(one) : TextOf(one));
  }
  const double most = WithDefaults(options.spec.reward()).max_error_rate();
  if (!options.json) output.out(Summary(cases, failed, most));
  return ended.ok() &&
         static_cast<double>(failed) <= most * static_cast<double>(cases.size()) + 1e-9;
}

}  // namespace baton
