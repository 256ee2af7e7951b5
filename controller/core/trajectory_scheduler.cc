#include "controller/core/trajectory_scheduler.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/core/refresh.h"
#include "controller/core/task_failure.h"
#include "controller/spec/roles.h"
#include "controller/spec/schedule.h"
#include "sdk/base/mutant.h"

namespace baton::controller {

TrajectoryScheduler::TrajectoryScheduler(std::shared_ptr<const v1::Job> submitted,
                                         const JobCoreOptions& options)
    : submitted_(std::move(submitted)),
      options_(options),
      drafts_(ScheduleOf(submitted_->effective_spec()).refresh),
      table_(submitted_),
      queues_(table_.graph().roles(), options.stragglers),
      admission_(submitted_),
      scores_(submitted_, options) {}

// ---- The work in progress -----------------------------------------------------------------------

void TrajectoryScheduler::Begin(bool evaluates, const Context& context) {
  const absl::Time now = context.out.now();
  admission_.Begin(evaluates, context);
  times_ = {now, now, now};
  table_.Clear();
  scores_.errors().Begin();
  DrawMore(context);
}

void TrajectoryScheduler::DrawMore(const Context& context) {
  admission_.TakeNumbers(table_, context.out);
  while (!admission_.draws().done()) {
    // The rest is made when rollouts have taken these.
    if (!context.resumes && queues_.rollouts().tasks.queued() >= options_.drawn_ahead) return;
    AddDraw(admission_.MakeNext(table_, context));
  }
}

void TrajectoryScheduler::AddDraw(std::vector<TrajectoryInfo> made) {
  for (TrajectoryInfo& trajectory : made) {
    scores_.errors().Recall(trajectory);
    Enqueue(table_.Add(std::move(trajectory)));
  }
}

void TrajectoryScheduler::Withdraw(const std::string& role, uint64_t work,
                                   const std::string& reason, const Context& context) {
  TaskScheduler& tasks = queues_.Of(role);
  const auto running = tasks.running().find(work);
  if (running != tasks.running().end()) {
    context.out.Do(StopTask{running->second.worker, table_.RefOf(role, work), reason});
  }
  tasks.Withdraw(work);
}

bool TrajectoryScheduler::Draw(const std::vector<TrajectoryInfo*>& drawn) {
  bool scores = false;
  for (TrajectoryInfo* trajectory : drawn) {
    if (!table_.Draw(*trajectory)) continue;
    scores = true;
    scores_.Enqueue(*trajectory, Scoring());
  }
  return scores;
}

void TrajectoryScheduler::Undraw(const std::vector<TrajectoryInfo*>& drawn,
                                 const std::string& reason, const Context& context) {
  const ScoreGraph& graph = table_.graph();
  for (TrajectoryInfo* trajectory : drawn) {
    for (uint32_t node = 0; node < trajectory->tries.size(); ++node) {
      NodeTry& tried = trajectory->tries[node];
      if ((graph.at_draw() >> node & 1) == 0) continue;
      if (tried.asked) Withdraw(graph.role(node), WorkId(trajectory->id, node), reason, context);
      // Its name is spent: a result of it may be on its way.
      tried = NodeTry{context.out.NextAttempt(tried.attempt)};
    }
    table_.Undraw(*trajectory);
  }
}

void TrajectoryScheduler::DropAll(const std::vector<TrajectoryInfo*>& dropped,
                                  const std::string& reason, const Context& context) {
  for (const TrajectoryInfo* trajectory : dropped) {
    Withdraw(roles::kRollout, trajectory->id, reason, context);
    for (uint32_t node = 0; node < trajectory->tries.size(); ++node) {
      if (!trajectory->tries[node].asked) continue;
      Withdraw(table_.graph().role(node), WorkId(trajectory->id, node), reason, context);
    }
    scores_.errors().Forget(*trajectory);
    if (trajectory->serial != 0) context.buffer.Drop(*trajectory, context.out);
  }
  for (const TrajectoryInfo* trajectory : dropped) table_.Remove(trajectory->id);
}

bool TrajectoryScheduler::AllGenerated() const {
  const bool rl = submitted_->effective_spec().kind() == v1::JOB_KIND_RL;
  const TaskScheduler& rollouts = queues_.rollouts().tasks;
  return rl && !table_.all().empty() && admission_.draws().done() && rollouts.queued() == 0 &&
         rollouts.running().empty();
}

// Whatever can be done next with it is queued, or it is READY.
void TrajectoryScheduler::Enqueue(TrajectoryInfo& trajectory) {
  const bool generated =
      trajectory.state == TrajectoryState::kScoring || trajectory.state == TrajectoryState::kReady;
  if (generated) return scores_.Enqueue(trajectory, Scoring());
  EnqueueGenerate(trajectory);
}

void TrajectoryScheduler::EnqueueGenerate(const TrajectoryInfo& trajectory,
                                          const std::string& avoid) {
  queues_.rollouts().tasks.Enqueue(trajectory.id, trajectory.draw, avoid, trajectory.pin.version);
}

void TrajectoryScheduler::Clear(const std::string& reason, const Context& context) {
  queues_.ForEach([&](const std::string& role, RoleQueue& queue) {
    for (const auto& [work, running] : queue.tasks.Clear()) {
      context.out.Do(StopTask{running.worker, table_.RefOf(role, work), reason});
    }
    queue.stragglers.DropPhase();  // a phase that is broken off says nothing of paces
  });
  context.buffer.EndWork(table_.all(), context.out);
  table_.Clear();
  admission_.End();
  scores_.errors().Begin();
}

// ---- Tasks --------------------------------------------------------------------------------------

void TrajectoryScheduler::Dispatch(const Context& context) {
  TaskScheduler& rollouts = queues_.rollouts().tasks;
  const absl::Time now = context.out.now();
  const auto generate = [&] {
    if (payload_wait_.waits()) return;
    while (auto assignment = rollouts.Next(now)) StartGenerate(*assignment, context);
  };
  generate();
  if (!admission_.draws().done()) {
    DrawMore(context);
    generate();
  }
  for (auto& [role, queue] : queues_.scorers()) {
    while (auto assignment = queue.tasks.Next(now)) {
      scores_.Start(role, *assignment, Scoring(), context.out);
    }
  }
}

// It is made by the weights of `version` from here on.
void TrajectoryScheduler::TakeVersion(TrajectoryInfo& trajectory, uint64_t version,
                                      const Context& context) {
  if (trajectory.policy_version != version && !Mutant("mixed-version-trajectory")) {
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

void TrajectoryScheduler::StartGenerate(const TaskScheduler::Assignment& assignment,
                                        const Context& context) {
  TrajectoryInfo& trajectory = table_.At(assignment.trajectory);
  trajectory.state = TrajectoryState::kGenerating;
  // A response is of one version: tokens of other weights are not gone on with.
  if (context.any_version) {
    TakeVersion(trajectory, queues_.rollouts().tasks.version(assignment.worker), context);
  } else {
    if (!context.versions.WhyStale(trajectory, context.out).empty()) trajectory.tokens = 0;
    trajectory.policy_version = context.versions.newest();
    trajectory.incarnation = context.out.incarnation();
  }
  StartTask task;
  task.worker = assignment.worker;
  task.ref = GenerateRef(trajectory);
  task.args.role = roles::kRollout;
  task.args.policy_version = trajectory.policy_version;
  task.args.trajectory = trajectory;
  context.out.Do(std::move(task));
}

void TrajectoryScheduler::Progressed(const TaskProgressed& event, absl::Time now) {
  TrajectoryInfo& trajectory = table_.At(event.ref.subject);
  // Nothing new is no progress: an attempt that reports it for ever would never count as stalled.
  if (event.tokens <= trajectory.tokens && !Mutant("empty-progress-counts")) return;
  trajectory.tokens = event.tokens;
  queues_.rollouts().tasks.Progressed(event.ref.subject, now);
}

void TrajectoryScheduler::RetryGenerate(TrajectoryInfo& trajectory, const absl::Status& status,
                                        const std::string& failed_on, const Context& context) {
  trajectory.attempt = context.out.NextAttempt(trajectory.attempt);
  const TaskFailure failure = FailureOf(status);
  // A rollout that holds another version loads the right one; that has a limit of its own.
  const bool stopped = failure == TaskFailure::kCancelled && !Mutant("stopped-generation-counts");
  const bool counts = !stopped && failure != TaskFailure::kWrongVersion;
  if (counts) ++trajectory.failures;
  trajectory.state = TrajectoryState::kPending;
  EnqueueGenerate(trajectory, failed_on);
}

// The pace of a rollout is the time of its engine's steps, at as many responses as the others have:
// a replica with more of them, or with a queue, is not slow. An engine that does not measure its
// steps is judged by the seconds of a token.
void TrajectoryScheduler::NotePace(const TaskDone& event, absl::Duration took) {
  StragglerDetector& stragglers = queues_.rollouts().stragglers;
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

void TrajectoryScheduler::RepeatRecalls(const std::string& worker, const Context& context) {
  for (const auto& [id, running] : queues_.rollouts().tasks.running()) {
    if (running.worker != worker || running.recalled == absl::InfinitePast()) continue;
    context.out.Do(StopTask{worker, table_.RefOf(roles::kRollout, id), kMadeAgain});
  }
}

void TrajectoryScheduler::Recall(uint64_t trajectory, const std::string& reason,
                                 const Context& context) {
  TaskScheduler& rollouts = queues_.rollouts().tasks;
  const TaskScheduler::Running& running = rollouts.running().at(trajectory);
  if (running.recalled != absl::InfinitePast()) return;
  context.out.Do(StopTask{running.worker, table_.RefOf(roles::kRollout, trajectory), reason});
  rollouts.Recall(trajectory, context.out.now());
}

// A response that was recalled has ended.
void TrajectoryScheduler::TakeBack(TrajectoryInfo& trajectory, const Context& context) {
  trajectory.attempt = context.out.NextAttempt(trajectory.attempt);
  trajectory.state = TrajectoryState::kPending;
  queues_.rollouts().tasks.EnqueueFirst(trajectory.id, trajectory.draw, trajectory.pin.version);
}

TrajectoryScheduler::Verdict TrajectoryScheduler::OnGenerated(const TaskDone& event,
                                                              const Context& context) {
  EffectSink& out = context.out;
  TrajectoryInfo& trajectory = table_.At(event.ref.subject);
  RoleQueue& rollouts = queues_.rollouts();
  const TaskFailure failure = FailureOf(event);
  const TaskScheduler::Running running = rollouts.tasks.running().at(trajectory.id);
  const absl::Duration took = out.now() - running.started;
  // What was begun elsewhere, or under another controller, tells nothing of a worker's pace.
  const bool own = event.ref.attempt == out.attempt_base();
  if (event.status.ok() && event.output.tokens > 0 && own) NotePace(event, took);
  if (event.status.ok()) rollouts.tasks.Progressed(trajectory.id, out.now());
  rollouts.tasks.Finish(trajectory.id);
  rollouts.tasks.Heard(event.worker, out.now());
  if (failure == TaskFailure::kCancelled) {
    // It sent the last ones. Of an attempt of an earlier controller the version is not known: the
    // worker may hold other weights by now than those that made it.
    const bool known = event.ref.attempt >= out.attempt_base();
    if (known) trajectory.tokens = std::max(trajectory.tokens, event.output.tokens);
    if (running.recalled != absl::InfinitePast() && !Mutant("recall-is-forgotten")) {
      TakeBack(trajectory, context);
      return {Next::kAgain};
    }
  }
  // A failure that an earlier controller may have seen, and acted on, is not counted again.
  const bool earlier = event.ref.attempt < out.attempt_base();
  if (!event.status.ok() && earlier && !Mutant("failure-counts-after-restart")) {
    RetryGenerate(trajectory, absl::CancelledError("it is asked again"), event.worker, context);
    return {Next::kAgain};
  }
  // Ranks of a replica are the actor's, so its group has lost one.
  if (GenerationTp(submitted_->effective_spec()) > 1 && MissesPeer(failure)) {
    RetryGenerate(trajectory, absl::CancelledError("a rank is lost"), event.worker, context);
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
    RetryGenerate(trajectory, event.status, event.worker, context);
    return {Next::kAgain};
  }
  trajectory.tokens = event.output.tokens;
  trajectory.prompt_tokens = event.output.prompt_tokens;
  trajectory.finish_reason = event.output.finish_reason;
  trajectory.location = event.output.location;
  trajectory.failures = 0;
  trajectory.scored = 0;
  trajectory.state =
      table_.Wanted(trajectory) != 0 ? TrajectoryState::kScoring : TrajectoryState::kReady;
  times_.generated = out.now();
  context.buffer.PutNew(trajectory, out);
  Enqueue(trajectory);
  return {Next::kDone};
}

TrajectoryScheduler::Verdict TrajectoryScheduler::OnScored(const TaskDone& event, bool late,
                                                           const Context& context) {
  const Verdict verdict = scores_.OnScored(event, late, Scoring(), context);
  if (verdict.next == Next::kDone) times_.scored = context.out.now();
  return verdict;
}

void TrajectoryScheduler::GenerateAnew(TrajectoryInfo& trajectory, const Context& context) {
  EffectSink& out = context.out;
  const ScoreGraph& graph = table_.graph();
  for (uint32_t node = 0; node < trajectory.tries.size(); ++node) {
    std::vector<TrajectoryInfo*> those = {&trajectory};
    if (graph.over_group(node)) those = table_.PromptGroupOf(trajectory);
    const std::string& role = graph.role(node);
    TaskScheduler& tasks = queues_.Of(role);
    for (TrajectoryInfo* t : those) {
      NodeTry& tried = t->tries[node];
      if (!tried.asked) continue;
      const uint64_t work = WorkId(t->id, node);
      const auto running = tasks.running().find(work);
      if (running != tasks.running().end()) {
        if (t != &trajectory) continue;  // it was told of this one's scores
        out.Do(StopTask{running->second.worker, table_.RefOf(role, work), "its payload is lost"});
      }
      tasks.Withdraw(work);
      tried.asked = false;
      tried.attempt = out.NextAttempt(tried.attempt);
    }
  }
  scores_.errors().Forget(trajectory);
  context.buffer.Drop(trajectory, out);
  table_.Reset(trajectory, context.versions.newest(), out);
  Enqueue(trajectory);
}

// ---- Waits --------------------------------------------------------------------------------------

absl::Status TrajectoryScheduler::CheckGenerations(const Context& context) {
  EffectSink& out = context.out;
  TaskScheduler& rollouts = queues_.rollouts().tasks;
  for (uint64_t id : rollouts.StalledSince(out.now() - options_.generate_stall)) {
    TrajectoryInfo& trajectory = table_.At(id);
    const std::string worker = rollouts.running().at(id).worker;
    out.Do(StopTask{worker, table_.RefOf(roles::kRollout, id), "no progress"});
    rollouts.Finish(id);
    out.Warn(absl::StrCat(TrajectoryName(id), " made no progress on worker ", worker, " for ",
                          absl::FormatDuration(options_.generate_stall), "; it is tried again"));
    RetryGenerate(trajectory, absl::DeadlineExceededError("no progress"), worker, context);
    if (trajectory.failures >= options_.max_attempts) {
      return absl::DeadlineExceededError(absl::StrCat(TrajectoryName(id), " made no progress on ",
                                                      options_.max_attempts,
                                                      " tries; the last on worker ", worker));
    }
  }
  return absl::OkStatus();
}

}  // namespace baton::controller
