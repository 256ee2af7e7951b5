// TrajectoryScheduler: the scores of a response, and what a failed one comes to.
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/core/lost_groups.h"
#include "controller/core/metric_names.h"
#include "controller/core/roles.h"
#include "controller/core/task_failure.h"
#include "controller/core/trajectory_scheduler.h"
#include "sdk/base/mutant.h"

namespace baton::controller {

void TrajectoryScheduler::RetryScore(TrajectoryInfo& trajectory, uint32_t node,
                                     const absl::Status& status, const std::string& failed_on,
                                     const EffectSink& out) {
  NodeTry& tried = trajectory.tries[node];
  tried.attempt = out.NextAttempt(tried.attempt);
  const bool stopped = FailureOf(status) == TaskFailure::kCancelled;
  if (!stopped || Mutant("stopped-score-counts")) ++tried.failures;
  EnqueueNode(trajectory, node, failed_on);
}

TrajectoryScheduler::Verdict TrajectoryScheduler::OnScored(const TaskDone& event, bool late,
                                                           const Context& context) {
  EffectSink& out = context.out;
  TrajectoryInfo& trajectory = table_.At(event.ref.subject);
  const uint32_t part = event.ref.part;
  const v1::ScoreNode& node = submitted_->dataflow().score(static_cast<int>(part));
  RoleQueue& queue = *queues_.Find(node.role());
  const uint64_t work = WorkId(trajectory.id, part);
  const absl::Duration took = out.now() - queue.manager.running().at(work).started;
  if (event.status.ok() && event.ref.attempt == out.attempt_base()) {
    queue.pace.Add(event.worker, absl::ToDoubleSeconds(took));
  }
  queue.manager.Finish(work);
  queue.manager.Heard(event.worker, out.now());
  if (!event.status.ok() && event.ref.attempt < out.attempt_base()) {  // as in OnGenerated
    RetryScore(trajectory, part, absl::CancelledError("it is asked again"), event.worker, out);
    return {Next::kAgain};
  }
  // Ranks that hold one copy of the model together score together. No rank said that it missed
  // another one if nobody answered at all.
  const bool together = ShapeOf(spec(), node.role()).tp > 1;
  if (together && !late && MissesPeer(FailureOf(event))) {
    RetryScore(trajectory, part, absl::CancelledError("a rank is lost"), event.worker, out);
    return {Next::kGroupBroken};
  }
  std::map<std::string, double> metrics = event.output.metrics;
  if (const auto reward = metrics.find("reward");
      reward != metrics.end() && node.out() != "reward") {
    metrics.emplace(node.out(), reward->second);  // what every method may call its number
    metrics.erase(reward);
  }
  dropped_names_ += DropSurplusScores(node.out(), &metrics);
  absl::Status status = event.status;
  std::string error = event.output.error;
  bool infra_failed = event.output.infra_failed && !error.empty();
  const bool made = metrics.count(node.out()) > 0 || event.output.location.size > 0;
  if (status.ok() && error.empty() && !made) {
    status = absl::InternalError(
        absl::StrCat("method ", node.method(), " returned no '", node.out(), "'"));
  }
  const TaskFailure failure = FailureOf(status);
  if (failure == TaskFailure::kAborted) {  // the reward itself is broken, whatever it is asked
    return {Next::kFails,
            absl::Status(status.code(), absl::StrCat(node.method(), " failed on worker ",
                                                     event.worker, ": ", status.message()))};
  }
  if (!status.ok()) {
    if (!IsPermanent(failure) && trajectory.tries[part].failures + 1 < options_.max_attempts) {
      if (failure != TaskFailure::kCancelled) {
        errors_.Retried(absl::StrCat(TrajectoryName(trajectory.id), " on worker ", event.worker,
                                     ": ", status.message()),
                        out);
      }
      RetryScore(trajectory, part, status, event.worker, out);
      return {Next::kAgain};
    }
    error = std::string(status.message());
    infra_failed = true;
  }
  // Of a method that failed on a part of a group, nobody knows what it says of the whole.
  const bool lacks_mates =
      graph().over_group(part) && LacksInputs(table_.MatesOf(trajectory), graph().needs(part));
  if (!error.empty() && !graph().IsReward(part) && !lacks_mates) {  // nothing could stand in for it
    return {Next::kFails,
            absl::Status(status.ok() ? absl::StatusCode::kInternal : status.code(),
                         absl::StrCat("node ", node.node(), " (", node.role(), ".", node.method(),
                                      ") failed on ", TrajectoryName(trajectory.id), ": ", error))};
  }
  return KeepScore(trajectory, event, {std::move(error), infra_failed, lacks_mates}, metrics,
                   context);
}

// The node is done with the trajectory: with its output, with an error that reward.error_reward
// stands in for, or with nothing.
TrajectoryScheduler::Verdict TrajectoryScheduler::KeepScore(
    TrajectoryInfo& trajectory, const TaskDone& event, const ScoreError& failed,
    const std::map<std::string, double>& metrics, const Context& context) {
  const uint32_t part = event.ref.part;
  const std::string& out = submitted_->dataflow().score(static_cast<int>(part)).out();
  const v1::RewardSpec& reward = spec().reward();
  const bool ok = failed.error.empty();
  for (const auto& [name, value] : metrics) trajectory.scores[name] = value;
  if (event.output.location.size > 0) trajectory.columns[part] = event.output.location;
  // A response counts once, and the row says that it did. One that lacks a mate is none of its own.
  if (!ok && !failed.lacks_mates && trajectory.error.empty()) {
    trajectory.error = failed.error;
    const absl::Status status =
        errors_.Failed(absl::StrCat(TrajectoryName(trajectory.id), " on worker ", event.worker,
                                    ": ", failed.error),
                       WorkName(context.out), Total(), context.out);
    if (!status.ok()) return {Next::kFails, status};
  }
  // An error of the response itself is worth error_reward. One of the infrastructure says nothing
  // of the response, so without an error_reward of the user's the response has no reward.
  if (!ok && ((failed.infra && !reward.has_error_reward()) || failed.lacks_mates)) {
    trajectory.scores.erase(out);
    trajectory.failed |= graph().WithDependents(part);
    trajectory.scored |= trajectory.failed;
  } else if (!ok) {
    trajectory.scores[out] = reward.error_reward();
  }
  table_.Scored(trajectory, part);
  times_.scored = context.out.now();
  context.buffer.Put(trajectory, context.out);
  EnqueueNext(trajectory);
  return {Next::kDone};
}

}  // namespace baton::controller
