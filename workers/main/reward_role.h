// Role "reward": the rules and the command of a job's spec.reward.
#ifndef BATON_WORKERS_MAIN_REWARD_ROLE_H_
#define BATON_WORKERS_MAIN_REWARD_ROLE_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "baton/v1/job_spec.pb.h"
#include "sdk/worker/worker.h"
#include "workers/reward/command_sandbox.h"
#include "workers/reward/reward_function.h"

namespace baton {

/// Whether a worker runs commands that specs name, and in which sandbox.
struct CommandPermission {
  std::shared_ptr<const reward::CommandSandbox> sandbox;  ///< Null: it runs none.
  std::string refusal = "this worker runs no commands; start it with --allow-commands";

  bool allowed() const { return sandbox != nullptr; }
};

/// See CommandOptions; may be null.
struct CommandSinks {
  std::function<void(absl::string_view line)> stderr_sink;
  std::function<void(absl::string_view text)> trouble_sink;
};

/// The weighted sum that `spec` describes; parts are named after their rule's type (the second of
/// a type "numeric_2" …) and "command". Errors name the rule. FAILED_PRECONDITION: it has a
/// command, which `commands` does not allow. `sinks`: where a command's stderr and troubles go.
absl::StatusOr<std::unique_ptr<reward::RewardFunction>> MakeReward(
    const v1::RewardSpec& spec, const CommandPermission& commands = {},
    const CommandSinks& sinks = {});

/// Serves "compute_reward" on several threads: commands answer slowly. A response that cannot be
/// scored is worth spec.reward.error_reward (0 if unset), with the reason in TaskResult.error; if
/// that is no fault of the response (infra_failed), only where error_reward is set. A command that
/// was given up is ABORTED, which ends the job. Problems of the command are reported as the role's
/// trouble (Worker::ReportTrouble) from the first fault on.
class RewardRole {
 public:
  explicit RewardRole(CommandPermission commands = {}) : commands_(std::move(commands)) {}

  /// Registers the role; this must outlive the worker's Run.
  absl::Status Register(Worker& worker);

 private:
  absl::StatusOr<v1::TaskResult> Assign(const v1::AssignRole& assign);
  absl::StatusOr<v1::TaskResult> Compute(const v1::Score& score, TaskContext& context) const;

  const CommandPermission commands_;
  Worker* worker_ = nullptr;  // of Register
  // Changed only while no Compute runs (the SDK runs assignments alone).
  v1::RewardSpec spec_;
  std::unique_ptr<reward::RewardFunction> function_;
};

}  // namespace baton

#endif  // BATON_WORKERS_MAIN_REWARD_ROLE_H_
