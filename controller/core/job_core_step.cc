// JobCore: what is next (Advance), and what follows from the results of a step's trajectories.
#include "absl/strings/str_cat.h"
#include "controller/core/job_core.h"
#include "controller/core/roles.h"

namespace baton::controller {

using Job = v1::Job;

void JobCore::SetPhase(Phase phase) {
  phase_ = phase;
  phase_since_ = out_.now();
}

bool JobCore::Wants(const std::string& worker, const TaskRef& ref) const {
  if (ref.kind == TaskKind::kAssignRole || ref.kind == TaskKind::kReleaseRole ||
      ref.kind == TaskKind::kLoadWeights) {
    return slots_.Awaits(worker, ref, versions_) != nullptr;
  }
  if (roster().Find(worker, RoleOf(ref)) == nullptr) return false;
  if (IsTrajectoryTask(ref.kind)) {
    if (begun_) return scheduler_.Wants(worker, ref);
    // The attempts are unknown until the trajectories stand. What a worker that came back said
    // it has was asked of it by an earlier controller; anything else is of no task.
    return scheduler_.births().Has(ref.birth, out_) && early_.Told(worker, ref) &&
           IsActive(state()) && state() != Job::STATE_STOPPING;
  }
  if (ref.incarnation != out_.incarnation() || ref.step != out_.step()) return false;
  if (!IsGroupCommand(ref.kind)) return false;
  const Group& group = groups_.all()[ref.part];
  return group.command.has_value() && ref == groups_.RefOf(group, out_);
}

bool JobCore::SetUpDone() const {
  const bool goes_on = state() == Job::STATE_RUNNING || state() == Job::STATE_PAUSING;
  return data_.loaded() && slots_.AreSetUp(groups_, goes_on);
}

void JobCore::Advance() {
  if (!IsActive(state()) || state() == Job::STATE_STOPPING) return;
  milestones_.Count(/*works=*/true, out_.now());
  if (restored_ && !begun_ && groups_.Commanded(TaskKind::kUpdate)) {
    // A restart in the middle of an update: its batch is rebuilt from the READY rows.
    if (SetUpDone()) BeginWork(Phase::kGenerate);
    return;
  }
  const bool working = phase_ == Phase::kGenerate || phase_ == Phase::kEvaluate;
  if (working || phase_ == Phase::kBatch || groups_.Commanded() || milestones_.committing()) {
    if (working && is_rl() && !versions_.published() && !groups_.Commanded() &&
        !groups_.room().Waits(out_.now()) && SetUpDone()) {
      // The relay lost the version that work goes on with.
      IssueCommand(HandOver(), groups_.actor());
    }
    LoadWeights();
    return Dispatch();
  }
  if (!SetUpDone()) return SetPhase(Phase::kSetUp);
  if (groups_.room().Waits(out_.now())) return;
  if (state() == Job::STATE_STARTING || state() == Job::STATE_RECOVERING) {
    Trigger(JobTrigger::kSetUp);
  }
  if (is_rl() && !versions_.published()) return IssueCommand(HandOver(), groups_.actor());
  LoadWeights();
  // A step or an evaluation that a restart interrupted is finished first.
  const bool at_end = milestones_.AtEnd(out_.step());
  if (!at_end && !UnderWay()) milestones_.EndWhenOutOfTime();
  const bool pausing = state() == Job::STATE_PAUSING;  // what is due is done after the pause
  const bool evaluates = milestones_.EvaluationDue(out_.step(), data_.validates());
  if (evaluates && (!pausing || buffer_.Recalls(v1::PURPOSE_EVAL)))
    return BeginWork(Phase::kEvaluate);
  if (milestones_.SaveDue(out_.step(), pausing)) return IssueSave();
  if (milestones_.AtEnd(out_.step()) && !evaluates) return Finish();
  if (pausing && !buffer_.Recalls(v1::PURPOSE_TRAIN)) return ReleaseAll();
  BeginWork(Phase::kGenerate);
}

void JobCore::Finish() {
  const std::string& why = milestones_.learning().stop_reason();
  if (!why.empty()) {
    out_.Warn(absl::StrCat("the job ends early, after step ", out_.step(), " of ",
                           job_.total_steps(), ": ", why),
              "notice");
  }
  Stop(Job::STATE_SUCCEEDED, JobTrigger::kFinish);
}

// `phase`: generate, a step; or evaluate. Once its trajectories stand, those that workers still run
// or finished meanwhile find their place; then work is given out.
void JobCore::BeginWork(Phase phase) {
  buffer_.BeginStep(options_.kept_steps, KeepsAllExperience(spec()), out_);
  SetPhase(phase);
  if (phase == Phase::kEvaluate) {
    scheduler_.BeginEvaluation(Work());
  } else {
    scheduler_.BeginStep(Work());
  }
  begun_ = true;
  AdoptRunning();
  early_.Replay(/*commands=*/false, [this](const TaskDone& early) { On(early); });
  // A result may have ended the phase, or the job.
  if (phase_ != Phase::kGenerate && phase_ != Phase::kEvaluate) return;
  LoadWeights();
  Dispatch();
  MaybePhaseDone();
}

void JobCore::Dispatch() {
  if (pools_.TakeTurns(View(), scheduler_.queues(), out_.now())) LoadWeights();
  if (!pools_.empty()) SendWaitingCommands(Commands());
  scheduler_.Dispatch(Work());
}

void JobCore::OnGenerated(const TaskDone& event) {
  TrajectoryScheduler::Verdict verdict = scheduler_.OnGenerated(event, Work());
  using Next = TrajectoryScheduler::Next;
  if (verdict.next == Next::kWrongVersion) verdict = OnWrongVersion(event);
  switch (verdict.next) {
    case Next::kFails:
      return Fail(verdict.status);
    case Next::kGroupBroken:  // a replica's ranks are the actor's
      return BreakGroup(groups_.actor(), event);
    case Next::kAgain:
    case Next::kWrongVersion:
      return Advance();
    case Next::kDone:
      break;
  }
  // The ranks gathered weights that generate, so failures before count no more.
  if (roster().hybrid()) slots_.ForgetFailures(*roster().Find(event.worker, roles::kRollout));
  // An idle rollout loads the weights that came while it worked.
  if (scheduler_.queues().rollouts().manager.load(event.worker) == 0) LoadWeights();
  Dispatch();
  MaybePhaseDone();
}

// The rollout holds another version after all; it loads the right one.
TrajectoryScheduler::Verdict JobCore::OnWrongVersion(const TaskDone& event) {
  using Next = TrajectoryScheduler::Next;
  const Slot& slot = *roster().Find(event.worker, roles::kRollout);
  versions_.Hold(slots_.IndexOf(slot), 0);
  scheduler_.queues().rollouts().manager.SetEnabled(event.worker, false);
  // The ranks gather it anew: of all that one gathering fails, the first counts.
  if (roster().hybrid() && versions_.Unpublish() &&
      slots_.CountFailure(slot) >= options_.max_attempts) {
    return {Next::kFails,
            absl::Status(event.status.code(),
                         absl::StrCat("worker ", event.worker,
                                      " cannot generate with the weights that it loaded, ",
                                      slot.failures, " times so far: ", event.status.message()))};
  }
  TrajectoryInfo& trajectory = scheduler_.table().At(event.ref.subject);
  scheduler_.RetryGenerate(trajectory, event.status, event.worker, Work());
  return {Next::kAgain};
}

void JobCore::OnScored(const TaskDone& event, bool late) {
  const TrajectoryScheduler::Verdict verdict = scheduler_.OnScored(event, late, Work());
  using Next = TrajectoryScheduler::Next;
  if (verdict.next == Next::kFails) return Fail(verdict.status);
  if (verdict.next == Next::kGroupBroken) BreakGroup(*groups_.Find(RoleOf(event.ref)), event);
  Dispatch();
  if (verdict.next == Next::kDone) MaybePhaseDone();
}

// Forgets the phase's trajectories; what still runs is stopped for `reason`.
void JobCore::ClearWork(const std::string& reason) {
  scheduler_.Clear(reason, Work());
  begun_ = true;  // what was early or adoptable belonged to the work that ends here
  early_.Drop(reason, out_);
}

}  // namespace baton::controller
