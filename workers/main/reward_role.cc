#include "workers/main/reward_role.h"

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "sdk/common/base/log.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/base/utf8.h"
#include "sdk/worker/score_output.h"
#include "workers/reward/command_reward.h"
#include "workers/reward/rule.h"
#include "workers/reward/weighted_reward.h"

namespace baton {
namespace {

constexpr int kThreads = 64;  // as many as there may be processes of a command
constexpr int kCredits = 64;

reward::RuleOptions RuleOptionsOf(const v1::RewardRule& rule) {
  reward::RuleOptions options;
  options.type = rule.type();
  options.extract = rule.extract();
  options.pattern = rule.pattern();
  if (rule.has_tolerance()) options.tolerance = rule.tolerance();
  if (rule.has_strip()) options.strip = rule.strip();
  options.ignore_case = rule.ignore_case();
  if (rule.has_reward()) options.reward = rule.reward();
  if (rule.has_otherwise()) options.otherwise = rule.otherwise();
  options.percent_is_hundredths = rule.percent() == "hundredths";
  options.sources = {rule.when().source().begin(), rule.when().source().end()};
  return options;
}

reward::CommandOptions CommandOptionsOf(const v1::RewardSpec& spec,
                                        const CommandPermission& commands,
                                        const CommandSinks& sinks) {
  reward::CommandOptions options;
  options.sandbox = commands.sandbox;
  options.command = spec.command();
  options.working_dir = spec.working_dir();
  if (spec.has_command_processes()) options.processes = spec.command_processes();
  if (spec.has_timeout_seconds()) options.timeout = absl::Seconds(spec.timeout_seconds());
  options.startup = absl::Seconds(spec.startup_seconds());
  options.stderr_sink = sinks.stderr_sink;
  options.trouble_sink = sinks.trouble_sink;
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<reward::RewardFunction>> MakeReward(
    const v1::RewardSpec& spec, const CommandPermission& commands, const CommandSinks& sinks) {
  std::vector<reward::WeightedPart> parts;
  std::map<std::string, int> count;
  for (int i = 0; i < spec.rules_size(); ++i) {
    const v1::RewardRule& rule = spec.rules(i);
    auto function = reward::CreateRule(RuleOptionsOf(rule));
    if (!function.ok()) {
      return Annotate(function.status(), absl::StrCat("spec.reward.rules[", i, "]"));
    }
    reward::WeightedPart part;
    const int nth = ++count[rule.type()];
    part.name = nth == 1 ? rule.type() : absl::StrCat(rule.type(), "_", nth);
    if (rule.has_weight()) part.weight = rule.weight();
    part.function = *std::move(function);
    parts.push_back(std::move(part));
  }
  if (!spec.command().empty()) {
    if (!commands.allowed()) {
      return absl::FailedPreconditionError(absl::StrCat("spec.reward.command: ", commands.refusal));
    }
    auto function = reward::CreateCommandReward(CommandOptionsOf(spec, commands, sinks));
    if (!function.ok()) return Annotate(function.status(), "spec.reward.command");
    reward::WeightedPart part;
    part.name = "command";
    if (spec.has_command_weight()) part.weight = spec.command_weight();
    part.function = *std::move(function);
    parts.push_back(std::move(part));
  }
  return reward::CreateWeightedReward(std::move(parts));
}

absl::Status RewardRole::Register(Worker& worker) {
  worker_ = &worker;
  RoleOptions role;
  role.threads = kThreads;
  role.on_assign = [this](const v1::Task& task, TaskContext&) {
    return Assign(task.assign_role());
  };
  role.on_release = [this](const std::string&) { function_.reset(); };
  BATON_RETURN_IF_ERROR(worker.RegisterRole("reward", std::move(role)));
  return worker.RegisterMethod("reward", "compute_reward", kCredits,
                               [this](const v1::Task& task, TaskContext& context) {
                                 return Compute(task.score(), context);
                               });
}

absl::StatusOr<v1::TaskResult> RewardRole::Assign(const v1::AssignRole& assign) {
  spec_ = assign.spec().reward();
  CommandSinks sinks;
  sinks.stderr_sink = [](absl::string_view line) {
    if (absl::StripAsciiWhitespace(line).empty()) return;  // a blank line says nothing
    Log(LogLevel::kInfo, "the reward command says", {{"text", ReplaceInvalidUtf8(line)}});
  };
  sinks.trouble_sink = [worker = worker_](absl::string_view text) {
    worker->ReportTrouble("reward", text);
  };
  BATON_ASSIGN_OR_RETURN(function_, MakeReward(spec_, commands_, sinks));
  return v1::TaskResult();
}

absl::StatusOr<v1::TaskResult> RewardRole::Compute(const v1::Score& score,
                                                   TaskContext& context) const {
  const v1::Trajectory& trajectory = score.trajectory();
  reward::RewardInput input;
  input.prompt = trajectory.prompt_text();
  for (const v1::ChatMessage& message : trajectory.messages()) {
    input.messages.push_back({message.role(), message.content()});
  }
  input.prompt_suffix = trajectory.prompt_suffix();
  if (spec_.with_prompt_suffix()) input.response = input.prompt_suffix;
  input.response += trajectory.response_text();
  input.answer = trajectory.answer();
  input.unanswered = trajectory.unanswered();
  input.source = trajectory.source();
  input.extra = score.extra_json();
  const auto cancelled = std::make_shared<std::atomic<bool>>(false);
  input.cancelled = cancelled;
  context.OnCancel([this, cancelled] {
    *cancelled = true;
    function_->NoticeCancelled();
  });
  auto scored_or = function_->Score(input);
  if (!scored_or.ok()) {
    if (absl::IsCancelled(scored_or.status())) return scored_or.status();
    // No other response can be scored either: the job must not go on without its reward.
    return absl::AbortedError(scored_or.status().message());
  }
  const reward::RewardResult& scored = *scored_or;
  v1::TaskResult result;
  auto& metrics = *result.mutable_metrics();
  const std::string name = OutputName(score, "reward");
  if (!scored.error.empty()) {
    result.set_error(ReplaceInvalidUtf8(scored.error));
    result.set_infra_failed(scored.infra_failed);
    if (!scored.infra_failed || spec_.has_error_reward()) metrics[name] = spec_.error_reward();
    return result;
  }
  for (const auto& [name, value] : scored.scores) metrics[name] = value;
  metrics[name] = scored.reward;
  return result;
}

}  // namespace baton
