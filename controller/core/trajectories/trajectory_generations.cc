#include "controller/core/trajectories/trajectory_generations.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/core/job/task_failure.h"
#include "controller/core/weights/refresh.h"
#include "controller/spec/dataflow/roles.h"
#include "controller/spec/settings/schedule.h"

namespace baton::controller {

using Next = WorkVerdict::Next;

TrajectoryGenerations::TrajectoryGenerations(std::shared_ptr<const v1::Job> submitted,
                                             const JobCoreOptions& options)
    : submitted_(std::move(submitted)),
      options_(options),
      drafts_(ScheduleOf(submitted_->effective_spec()).refresh) {}

void TrajectoryGenerations::Enqueue(const TrajectoryInfo& trajectory, const std::string& avoid,
                                    const Work& work) const {
  work.queues.rollouts().tasks.Enqueue(trajectory.id, PromptKey(trajectory), avoid,
                                       trajectory.pin.version);
}

// The trajectory is made by the weights of `version` from here on.
void TrajectoryGenerations::TakeVersion(TrajectoryInfo& trajectory, uint64_t version,
                                        const WorkContext& context) const {
  if (trajectory.policy_version != version) {
    if (drafts_ && trajectory.tokens > 0) {
      trajectory.drafted = trajectory.tokens;
      trajectory.draft_version = trajectory.policy_version;
    }
    trajectory.tokens = 0;
  }
  trajectory.policy_version = version;
  trajectory.incarnation = context.versions.IncarnationOf(version);
  trajectory.resumed = trajectory.tokens;
}

void TrajectoryGenerations::Start(const TaskScheduler::Assignment& assignment, const Work& work,
                                  const WorkContext& context) const {
  TrajectoryInfo& trajectory = work.table.At(assignment.trajectory);
  trajectory.state = TrajectoryState::kGenerating;
  // A response is of one version, so it does not continue tokens of other weights.
  TakeVersion(trajectory, work.queues.rollouts().tasks.version(assignment.worker), context);
  StartTask task;
  task.worker = assignment.worker;
  task.ref = GenerateRef(trajectory);
  task.args.role = roles::kRollout;
  task.args.policy_version = trajectory.policy_version;
  task.args.trajectory = trajectory;
  context.out.Do(std::move(task));
}

void TrajectoryGenerations::Progressed(const TaskProgressed& event, const Work& work,
                                       absl::Time now) const {
  TrajectoryInfo& trajectory = work.table.At(event.ref.subject);
  // A report without new tokens is no progress: otherwise an attempt that repeats it would never
  // count as stalled.
  if (event.tokens <= trajectory.tokens) return;
  trajectory.tokens = event.tokens;
  work.queues.rollouts().tasks.watch().Progressed(event.ref.subject, now);
}

void TrajectoryGenerations::Retry(TrajectoryInfo& trajectory, const absl::Status& status,
                                  const std::string& failed_on, const Work& work,
                                  const WorkContext& context) const {
  trajectory.attempt = context.out.NextAttempt(trajectory.attempt);
  const TaskFailure failure = FailureOf(status);
  // A rollout that holds another version loads the right one; loading has a limit of its own.
  const bool counts = failure != TaskFailure::kCancelled && failure != TaskFailure::kWrongVersion;
  if (counts) ++trajectory.failures;
  trajectory.state = TrajectoryState::kPending;
  Enqueue(trajectory, failed_on, work);
}

// The pace of a rollout is the time of its engine's steps, at as many responses as the others have:
// a replica with more of them, or with a queue, is not slow. An engine that does not measure its
// steps is judged by the seconds of a token.
void TrajectoryGenerations::NotePace(const TaskDone& event, absl::Duration took, const Work& work) {
  StragglerDetector& stragglers = work.queues.rollouts().stragglers;
  const auto& measured = event.output.metrics;
  const auto rows = measured.find(kStepRows), seconds = measured.find(kStepSeconds);
  const bool by_steps = rows != measured.end() && seconds != measured.end() &&
                        step_cost_.Note(rows->second, seconds->second);
  if (!by_steps && std::exchange(all_measure_steps_, false)) {
    stragglers
        .DropPhase();  // rollouts are compared in one unit, or the one that differs seems slow
  }
  stragglers.Add(event.worker, all_measure_steps_
                                   ? step_cost_.AtMeanRows(rows->second, seconds->second)
                                   : absl::ToDoubleSeconds(took) / event.output.tokens);
}

void TrajectoryGenerations::Recall(uint64_t trajectory, const std::string& reason, const Work& work,
                                   const WorkContext& context) const {
  TaskScheduler& rollouts = work.queues.rollouts().tasks;
  const TaskScheduler::Running& running = rollouts.running().at(trajectory);
  if (running.recalled != absl::InfinitePast()) return;
  context.out.Do(StopTask{running.worker, work.table.RefOf(roles::kRollout, trajectory), reason});
  rollouts.watch().Recall(trajectory, context.out.now());
}

void TrajectoryGenerations::RepeatRecalls(const std::string& worker, const Work& work,
                                          const WorkContext& context) const {
  for (const auto& [id, running] : work.queues.rollouts().tasks.running()) {
    if (running.worker != worker || running.recalled == absl::InfinitePast()) continue;
    context.out.Do(StopTask{worker, work.table.RefOf(roles::kRollout, id), kMadeAgain});
  }
}

// A recalled response has ended.
void TrajectoryGenerations::TakeBack(TrajectoryInfo& trajectory, const Work& work,
                                     const WorkContext& context) const {
  trajectory.attempt = context.out.NextAttempt(trajectory.attempt);
  trajectory.state = TrajectoryState::kPending;
  work.queues.rollouts().tasks.EnqueueFirst(trajectory.id, PromptKey(trajectory),
                                            trajectory.pin.version);
}

WorkVerdict TrajectoryGenerations::OnGenerated(const TaskDone& event, const Work& work,
                                               const WorkContext& context) {
  EffectSink& out = context.out;
  TrajectoryInfo& trajectory = work.table.At(event.ref.subject);
  RoleQueue& rollouts = work.queues.rollouts();
  const TaskFailure failure = FailureOf(event);
  const TaskScheduler::Running running = rollouts.tasks.running().at(trajectory.id);
  const absl::Duration took = out.now() - running.started;
  // A response that was begun elsewhere, or under another controller, says nothing about the
  // worker's pace.
  const bool own = event.ref.attempt == out.attempt_base();
  if (event.status.ok() && event.output.tokens > 0 && own) NotePace(event, took, work);
  if (event.status.ok()) rollouts.tasks.watch().Progressed(trajectory.id, out.now());
  rollouts.tasks.Finish(trajectory.id);
  rollouts.tasks.watch().Heard(event.worker, out.now());
  if (failure == TaskFailure::kCancelled) {
    trajectory.tokens = std::max(trajectory.tokens, event.output.tokens);  // it sent the last ones
    if (running.recalled != absl::InfinitePast()) {
      TakeBack(trajectory, work, context);
      return {Next::kAgain};
    }
  }
  // A failure that an earlier controller may have seen, and acted on, is not counted again.
  const bool earlier = event.ref.attempt < out.attempt_base();
  if (!event.status.ok() && earlier) {
    Retry(trajectory, absl::CancelledError("it is asked again"), event.worker, work, context);
    return {Next::kAgain};
  }
  // Ranks of a replica are the actor's, so its group has lost one.
  if (GenerationTp(submitted_->effective_spec()) > 1 && MissesPeer(failure)) {
    Retry(trajectory, absl::CancelledError("a rank is lost"), event.worker, work, context);
    return {Next::kGroupBroken};
  }
  if (!event.status.ok()) {
    if (IsPermanent(failure) || trajectory.failures + 1 >= options_.max_attempts) {
      return {Next::kFails, absl::Status(event.status.code(),
                                         absl::StrCat("generating ", TrajectoryName(trajectory.id),
                                                      " (prompt ", trajectory.prompt_id,
                                                      ") failed: ", event.status.message()))};
    }
    if (failure == TaskFailure::kWrongVersion) return {Next::kWrongVersion};
    Retry(trajectory, event.status, event.worker, work, context);
    return {Next::kAgain};
  }
  speculation_.Note(event.output.metrics);
  const auto judged = event.output.metrics.find(kDraftAccepted);
  // A draft of unfinished older tokens, if there was one, took its place (Refresh).
  if (trajectory.earlier.tokens > 0 && trajectory.drafted == 0 && trajectory.resumed == 0 &&
      judged != event.output.metrics.end()) {
    speculation_.NoteMadeAgain(trajectory.earlier.tokens, judged->second);
  }
  trajectory.earlier = {};
  trajectory.tokens = event.output.tokens;
  trajectory.prompt_tokens = event.output.prompt_tokens;
  trajectory.finish_reason = event.output.finish_reason;
  trajectory.location = event.output.location;
  trajectory.failures = 0;
  trajectory.scored = 0;
  trajectory.state = work.table.plan().Wanted(trajectory) != 0 ? TrajectoryState::kScoring
                                                               : TrajectoryState::kReady;
  context.buffer.PutNew(trajectory, out);
  return {Next::kDone};
}

// ---- Waits --------------------------------------------------------------------------------------

absl::Status TrajectoryGenerations::CheckStalls(const Work& work,
                                                const WorkContext& context) const {
  EffectSink& out = context.out;
  TaskScheduler& rollouts = work.queues.rollouts().tasks;
  for (uint64_t id : rollouts.watch().StalledSince(out.now() - options_.generate_stall)) {
    TrajectoryInfo& trajectory = work.table.At(id);
    const std::string worker = rollouts.running().at(id).worker;
    out.Do(StopTask{worker, work.table.RefOf(roles::kRollout, id), "no progress"});
    rollouts.Finish(id);
    out.Warn(absl::StrCat(TrajectoryName(id), " made no progress on worker ", worker, " for ",
                          absl::FormatDuration(options_.generate_stall), "; it is tried again"));
    Retry(trajectory, absl::DeadlineExceededError("no progress"), worker, work, context);
    if (trajectory.failures >= options_.max_attempts) {
      return absl::DeadlineExceededError(absl::StrCat(TrajectoryName(id), " made no progress on ",
                                                      options_.max_attempts,
                                                      " tries; the last on worker ", worker));
    }
  }
  return absl::OkStatus();
}

}  // namespace baton::controller
