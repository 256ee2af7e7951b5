#include "controller/core/trajectories/trajectory_scores.h"

#include "absl/strings/str_cat.h"
#include "controller/core/job/metric_names.h"
#include "controller/core/job/task_failure.h"
#include "controller/core/trajectories/lost_groups.h"
#include "controller/spec/dataflow/roles.h"

namespace baton::controller {

using Next = WorkVerdict::Next;

TrajectoryScores::TrajectoryScores(std::shared_ptr<const v1::Job> submitted,
                                   const JobCoreOptions& options)
    : submitted_(submitted), options_(options), errors_(std::move(submitted), options.tell_again) {}

void TrajectoryScores::Enqueue(TrajectoryInfo& trajectory, const Work& work) const {
  if (trajectory.state == TrajectoryState::kReady) work.table.CountReady();
  EnqueueNext(trajectory, work);
}

void TrajectoryScores::EnqueueNext(TrajectoryInfo& trajectory, const Work& work) const {
  // The group may have waited for this trajectory, even if the trajectory is READY itself.
  for (const auto& [next, node] : work.table.NextScores(trajectory)) {
    EnqueueNode(*next, node, "", work);
  }
}

void TrajectoryScores::EnqueueNode(TrajectoryInfo& trajectory, uint32_t node,
                                   const std::string& avoid, const Work& work) const {
  trajectory.tries[node].asked = true;
  const std::string& role = work.table.plan().graph().role(node);
  work.queues.Of(role).Enqueue(WorkId(trajectory.id, node), trajectory.prompt_index, avoid);
}

void TrajectoryScores::Start(const std::string& role, const TaskScheduler::Assignment& assignment,
                             const Work& work, EffectSink& out) const {
  const ScoreGraph& graph = work.table.plan().graph();
  TrajectoryInfo& trajectory = work.table.At(TrajectoryOf(assignment.trajectory));
  StartTask task;
  task.worker = assignment.worker;
  task.ref = work.table.RefOf(role, assignment.trajectory);
  const uint32_t node_index = task.ref.target;
  const v1::ScoreNode& node = submitted_->dataflow().score(static_cast<int>(node_index));
  task.args.role = node.role();
  task.args.method = node.method();
  task.args.deadline = options_.score_deadline;
  task.args.trajectory = trajectory;
  if (graph.over_group(node_index)) {
    // A response of the group without these inputs cannot be compared with the others.
    for (const TrajectoryInfo* member : work.table.PromptGroupOf(trajectory)) {
      if ((graph.needs(node_index) & member->failed) == 0) task.args.group.push_back(*member);
    }
  }
  out.Do(std::move(task));
}

// ---- Results ------------------------------------------------------------------------------------

void TrajectoryScores::Retry(TrajectoryInfo& trajectory, uint32_t node, const absl::Status& status,
                             const std::string& failed_on, const Work& work,
                             const EffectSink& out) const {
  NodeTry& tried = trajectory.tries[node];
  tried.attempt = out.NextAttempt(tried.attempt);
  const bool stopped = FailureOf(status) == TaskFailure::kCancelled;
  if (!stopped) ++tried.failures;
  EnqueueNode(trajectory, node, failed_on, work);
}

// The scores that the worker reported, under the names that the job knows.
std::map<std::string, double> TrajectoryScores::ScoresIn(const TaskDone& event,
                                                         const std::string& made) {
  std::map<std::string, double> metrics = event.output.metrics;
  const auto reward = metrics.find("reward");
  if (reward != metrics.end() && made != "reward") {
    metrics.emplace(made, reward->second);  // what every method may call its number
    metrics.erase(reward);
  }
  dropped_names_ += DropSurplusScores(made, &metrics);
  return metrics;
}

WorkVerdict TrajectoryScores::OnScored(const TaskDone& event, bool late, const Work& work,
                                       const WorkContext& context) {
  EffectSink& out = context.out;
  const ScoreGraph& graph = work.table.plan().graph();
  TrajectoryInfo& trajectory = work.table.At(event.ref.subject);
  const uint32_t node_index = event.ref.target;
  const v1::ScoreNode& node = submitted_->dataflow().score(static_cast<int>(node_index));
  RoleQueue& queue = *work.queues.Find(node.role());
  const uint64_t score = WorkId(trajectory.id, node_index);
  const absl::Duration took = out.now() - queue.tasks.running().at(score).started;
  // A score that was begun under another controller says nothing about the worker's pace.
  if (event.status.ok() && event.ref.attempt == out.attempt_base()) {
    queue.stragglers.Add(event.worker, absl::ToDoubleSeconds(took));
  }
  queue.tasks.Finish(score);
  queue.tasks.watch().Heard(event.worker, out.now());
  // A failure that an earlier controller may have seen, and acted on, is not counted again.
  if (!event.status.ok() && event.ref.attempt < out.attempt_base()) {
    Retry(trajectory, node_index, absl::CancelledError("it is asked again"), event.worker, work,
          out);
    return {Next::kAgain};
  }
  // Ranks that hold one copy of the model together score together. If no rank answered at all, none
  // reported a missing one.
  const bool together = ShapeOf(submitted_->effective_spec(), node.role()).tp > 1;
  if (together && !late && MissesPeer(FailureOf(event))) {
    Retry(trajectory, node_index, absl::CancelledError("a rank is lost"), event.worker, work, out);
    return {Next::kGroupBroken};
  }
  const std::map<std::string, double> metrics = ScoresIn(event, node.out());
  absl::Status status = event.status;
  std::string error = event.output.error;
  bool infra_failed = event.output.infra_failed && !error.empty();
  const bool made = metrics.count(node.out()) > 0 || event.output.location.size > 0;
  if (status.ok() && error.empty() && !made) {
    status = absl::InternalError(
        absl::StrCat("method ", node.method(), " returned no '", node.out(), "'"));
  }
  const TaskFailure failure = FailureOf(status);
  if (failure == TaskFailure::kAborted) {  // the reward itself is broken, for any response
    return {Next::kFails,
            absl::Status(status.code(), absl::StrCat(node.method(), " failed on worker ",
                                                     event.worker, ": ", status.message()))};
  }
  if (!status.ok()) {
    if (!IsPermanent(failure) &&
        trajectory.tries[node_index].failures + 1 < options_.max_attempts) {
      // A cancelled task is not a failure, so the user is not told of it.
      if (failure != TaskFailure::kCancelled) {
        errors_.Retried(absl::StrCat(TrajectoryName(trajectory.id), " on worker ", event.worker,
                                     ": ", status.message()),
                        out);
      }
      Retry(trajectory, node_index, status, event.worker, work, out);
      return {Next::kAgain};
    }
    error = std::string(status.message());
    infra_failed = true;
  }
  // If a method failed for a part of a group, its scores for the whole group are not known.
  const bool lacks_inputs =
      graph.over_group(node_index) &&
      LacksInputs(work.table.PromptGroupOf(trajectory), graph.needs(node_index));
  if (!error.empty() && !graph.IsReward(node_index) &&
      !lacks_inputs) {  // nothing could stand in for it
    return {Next::kFails,
            absl::Status(status.ok() ? absl::StatusCode::kInternal : status.code(),
                         absl::StrCat("node ", node.node(), " (", node.role(), ".", node.method(),
                                      ") failed on ", TrajectoryName(trajectory.id), ": ", error))};
  }
  return Keep(trajectory, event, {std::move(error), infra_failed, lacks_inputs}, metrics, work,
              context);
}

// The node is done with the trajectory: with its output, with an error that reward.error_reward
// stands in for, or with nothing.
WorkVerdict TrajectoryScores::Keep(TrajectoryInfo& trajectory, const TaskDone& event,
                                   const ScoreError& failed,
                                   const std::map<std::string, double>& metrics, const Work& work,
                                   const WorkContext& context) {
  const uint32_t node_index = event.ref.target;
  const std::string& out = submitted_->dataflow().score(static_cast<int>(node_index)).out();
  const v1::RewardSpec& reward = submitted_->effective_spec().reward();
  const bool ok = failed.error.empty();
  for (const auto& [name, value] : metrics) trajectory.scores[name] = value;
  if (event.output.location.size > 0) trajectory.columns[node_index] = event.output.location;
  // Each response counts once, and the row says so. A response whose group lacks inputs is not
  // counted here.
  if (!ok && !failed.lacks_inputs && trajectory.error.empty()) {
    trajectory.error = failed.error;
    const uint64_t total = work.admission.Judged(work.table);
    const absl::Status status =
        errors_.Failed(absl::StrCat(TrajectoryName(trajectory.id), " on worker ", event.worker,
                                    ": ", failed.error),
                       work.admission.WorkName(context.out), total, context.out);
    if (!status.ok()) return {Next::kFails, status};
  }
  // An error of the response itself is worth error_reward. An error of the infrastructure says
  // nothing about the response, so unless the user set error_reward the response has no reward.
  if (!ok && ((failed.infra && !reward.has_error_reward()) || failed.lacks_inputs)) {
    trajectory.scores.erase(out);
    trajectory.failed |= work.table.plan().graph().WithDependents(node_index);
    trajectory.scored |= trajectory.failed;
  } else if (!ok) {
    trajectory.scores[out] = reward.error_reward();
  }
  work.table.Scored(trajectory, node_index);
  context.buffer.Put(trajectory, context.out);
  Enqueue(trajectory, work);
  return {Next::kDone};
}

// ---- Deadlines ----------------------------------------------------------------------------------

std::vector<uint64_t> TrajectoryScores::Stalled(const std::string& role, const RoleQueues& queues,
                                                absl::Time now) const {
  return queues.Of(role).watch().StalledSince(now - options_.score_deadline);
}

std::optional<TaskDone> TrajectoryScores::Late(const std::string& role, uint64_t score,
                                               const Work& work) const {
  const auto& all = work.queues.Of(role).running();
  const auto running = all.find(score);
  if (running == all.end()) return std::nullopt;
  TaskDone late;
  late.worker = running->second.worker;
  late.ref = work.table.RefOf(role, score);
  late.status = absl::DeadlineExceededError(
      absl::StrCat("no score within ", absl::FormatDuration(options_.score_deadline)));
  return late;
}

}  // namespace baton::controller
