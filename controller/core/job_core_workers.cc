// JobCore: workers that come, come back and are lost, and the way back to a checkpoint.
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "controller/core/job_core.h"
#include "controller/core/role_names.h"
#include "controller/core/roles.h"
#include "controller/core/task_failure.h"
#include "controller/core/worker_return.h"

namespace baton::controller {

using Job = v1::Job;

std::string JobCore::RoleOf(const TaskRef& ref) const {
  if (ref.kind == TaskKind::kGenerate) return roles::kRollout;
  if (ref.kind == TaskKind::kScore) {
    const ScoreGraph& graph = scheduler_.table().graph();
    return ref.part < static_cast<uint32_t>(graph.size()) ? graph.role(ref.part) : "";
  }
  if (IsGroupCommand(ref.kind)) {
    return ref.part < groups_.all().size() ? groups_.all()[ref.part].role : "";
  }
  return ref.subject < roster().slots().size() ? roster().slots()[ref.subject].role : "";
}

void JobCore::On(const WorkerGranted& event) {
  const bool wanted = state() == Job::STATE_QUEUED || state() == Job::STATE_STARTING ||
                      state() == Job::STATE_RUNNING || state() == Job::STATE_RECOVERING ||
                      (state() == Job::STATE_PAUSING && !slots_.Releasing());
  // The queue may answer a need that the job no longer has.
  if (!wanted) return out_.Do(ReturnWorker{event.worker});
  const std::vector<const Slot*> seat = slots_.Seat(event, out_.now());
  if (seat.empty()) return out_.Do(ReturnWorker{event.worker});
  if (state() == Job::STATE_QUEUED) {
    if (!job_.has_start_time()) {
      job_.mutable_start_time()->set_seconds(absl::ToUnixSeconds(out_.now()));
    }
    Trigger(JobTrigger::kWorkersGranted);
    if (!data_.loaded() && !data_.loading()) data_.Load(out_);
    SetPhase(Phase::kSetUp);
  }
  for (const Slot* slot : seat) TakeRoleOn(*slot, Roles());
}

void JobCore::OnRoleTask(const TaskDone& event, const Slot& slot) {
  if (event.ref.kind == TaskKind::kReleaseRole) {
    slots_.Leave(slot, versions_, out_);
    out_.Do(PutJob{});
    return CheckReleased();
  }
  const absl::StatusOr<bool> plays = OnRoleTaken(event, slot, Roles());
  if (!plays.ok()) return Fail(plays.status());
  if (*plays) Advance();
}

void JobCore::LoadWeights() {
  if (!versions_.published()) return;
  pools_.TakeTurns(View(), scheduler_.queues(), out_.now());
  slots_.LoadWeights(pools_.HasTurn(roles::kRollout, View()), versions_,
                     scheduler_.queues().rollouts().manager, out_);
}

void JobCore::OnLoadWeights(const TaskDone& event, const Slot& slot) {
  const uint64_t index = slots_.IndexOf(slot);
  if (event.status.ok()) {
    slots_.ForgetFailures(slot);
    versions_.Loaded(index);
    LoadWeights();
    versions_.NoteWhenAllHold(roster(), out_.now());
    return Dispatch();
  }
  versions_.StopLoading(index);
  out_.Warn(absl::StrCat("worker ", slot.worker, " could not load policy version ",
                         versions_.newest(), ": ", event.status.message()));
  // The relay lost the version, by a restart or for want of room: the actor publishes it again.
  if (FailureOf(event) == TaskFailure::kNotFound) versions_.Unpublish();
  if (slots_.CountFailure(slot) >= options_.max_attempts) {
    return Fail(absl::Status(
        event.status.code(),
        absl::StrCat("worker ", slot.worker, " failed ", slot.failures,
                     " times to load the weights; the last: ", event.status.message())));
  }
  Advance();
}

void JobCore::On(const WorkerLost& event) {
  if (event.moves) {  // it takes on another role next, and leaves these
    for (const Slot* slot : roster().Of(event.worker)) slots_.SendRelease(*slot, out_);
  }
  LoseWorker(event.worker, event.reason, event.moves);
}

void JobCore::LoseWorker(const std::string& worker, const std::string& reason, bool moves) {
  const auto loss = slots_.Lose(worker, groups_, versions_, out_.now());
  if (!loss.has_value()) return;
  scheduler_.queues().ForgetPace(worker);
  early_.Forget(worker);
  // A job that gives its workers back has nothing left that the loss could harm.
  if (loss->releasing || state() == Job::STATE_STOPPING) {
    out_.Do(PutJob{});
    return CheckReleased();
  }
  out_.Warn(absl::StrCat("lost ", loss->seat, " worker ", worker, ": ", reason));
  for (const std::string& role : loss->roles) {
    scheduler_.TakeBack(role, worker, /*stop=*/"", out_);
  }
  if (!loss->trained.empty()) RecoverTrainer(loss->trained, reason);
  for (const std::string& role : loss->roles) {  // without it: the ranks that are left wait
    if (const Group* group = groups_.Find(role)) FormAnew(*group, Roles());
  }
  // For a worker that moves the queue has found a replacement.
  if (IsActive(state()) && !slots_.Releasing() && !moves) slots_.Ask(groups_, out_);
  out_.Do(PutJob{});
  Dispatch();
}

// A worker that lives but let a deadline pass, or does not hold what it took on.
void JobCore::Evict(const std::string& worker, const std::string& reason) {
  out_.Do(ReturnWorker{worker, Conduct::kSilent});
  LoseWorker(worker, reason);
}

// A phase of `role` is over: one that has been slower than its peers for long has to go.
void JobCore::EvictSlow(PeerPace& pace, const std::string& role, const std::string& unit) {
  const auto slow = pace.EndPhase(out_.now());
  if (!slow.has_value() || roster().Find(slow->worker, role) == nullptr) return;
  for (const Slot* slot : roster().Of(slow->worker)) {
    // A rank is not drained: its group would go back to the checkpoint, which costs more.
    if (groups_.Find(slot->role) != nullptr) return;
  }
  out_.Do(ReturnWorker{slow->worker, Conduct::kSlow});
  LoseWorker(
      slow->worker,
      absl::StrFormat("it is drained: it takes %.3g ms a %s and its peers take %.3g ms, for %s",
                      slow->seconds * 1e3, unit, slow->peers * 1e3,
                      absl::FormatDuration(absl::Floor(slow->since, absl::Seconds(1)))));
}

void JobCore::On(const WorkerBack& event) {
  if (!roster().Has(event.worker)) return out_.Do(ReturnWorker{event.worker});
  const bool first_time = slots_.Attached(event.worker);
  if (GaveUpRole(event, Roles())) {
    out_.Do(ReturnWorker{event.worker});
    return LoseWorker(event.worker, "it gave up its role while it was cut off");
  }
  NoteCommands(event, Roles());
  bool works = false, ready = false;
  for (const Slot* slot : roster().Of(event.worker)) {
    ResumeRole(*slot, event, Roles());
    if (slot->state != SlotState::kReady) continue;
    ready = true;
    SendMissedCommand(*slot, Commands());
    if (scheduler_.queues().Find(slot->role) == nullptr) continue;
    works = true;
    ResumeWork(*slot, event, first_time, Roles());
  }
  if (!ready) return;
  if (works && first_time) {
    early_.NoteTasks(event);
    if (begun_) AdoptRunning();
  } else if (works && begun_) {
    StopUnwanted(event.worker, event.running);
  }
  LoadWeights();
  Dispatch();
  Advance();  // it may have been the last that was waited for
}

// ---- The way back -------------------------------------------------------------------------------

// Everything stands as it did when the newest checkpoint was saved. Gives the steps that are lost.
int64_t JobCore::RollBack() {
  ClearWork("the trainer restarts from its checkpoint");
  groups_.Stop("the trainer restarts from its checkpoint", roster(), out_);
  const int64_t lost_steps = out_.step() - milestones_.way_back();
  out_.RollBack(milestones_.way_back());
  groups_.DropAll(out_);
  groups_.TakeReports();
  groups_.room().End();
  const SavedState& saved = milestones_.RollBack();
  scheduler_.draws().RollBack(saved.cursor);
  buffer_.RollBack(saved.algorithm, KeepsAllExperience(spec()), out_);
  versions_.Unpublish();
  return lost_steps;
}

// `role`: that is lost for `reason`; empty: none is, and the reason says it all.
void JobCore::RecoverTrainer(const std::string& role, const std::string& reason) {
  const int64_t lost_steps = RollBack();
  const std::string what = role.empty()
                               ? reason
                               : absl::StrCat("the ", role == roles::kActor ? "trainer" : role,
                                              " is lost (", reason, ")");
  out_.Warn(absl::StrCat(
      what, "; it restarts from step ", out_.step(),
      lost_steps > 0 ? absl::StrCat(", ", lost_steps, " steps are redone") : std::string()));
  Trigger(JobTrigger::kTrainerLost);
  if (state() == Job::STATE_PAUSING) return ReleaseAll();
  SetPhase(Phase::kSetUp);
  // What trains with it goes back to the same checkpoint.
  for (const Group& group : groups_.all()) {
    if (group.trains && roster().AnyIn(group.role, SlotState::kReady)) FormAnew(group, Roles());
  }
}

void JobCore::BreakGroup(const Group& group, const TaskDone& event) {
  const absl::Status status = controller::BreakGroup(group, event, Roles());
  if (!status.ok()) Fail(status);
}

// A rank may notice the loss of another one before the lease of that one ends. By now the lease has
// ended, or no rank is lost.
void JobCore::CheckGroups() {
  for (const Group& group : groups_.all()) {
    const auto reason = groups_.TakeBroken(group, options_.regroup_delay, out_.now());
    if (!reason.has_value()) continue;
    if (group.trains && roster().AnyIn(group.role, SlotState::kReady)) {
      RecoverTrainer(group.role, *reason);  // which forms it anew, and what trains with it
    } else {
      FormAnew(group, Roles());
    }
  }
}

// ---- Workers that leave -------------------------------------------------------------------------

void JobCore::ReleaseAll() {
  SetPhase(Phase::kNone);
  out_.Do(NeedWorkers{});  // or what it gives back would be granted to it again
  for (const Slot& slot : roster().slots()) {
    if (slot.state != SlotState::kEmpty) scheduler_.queues().RemoveWorker(slot.worker);
  }
  slots_.ReleaseAll(out_);
  // The job gives its ranks back, so no rank waits for another.
  for (const Group& group : groups_.all()) groups_.ForgetBroken(group);
  out_.Do(PutJob{});
  CheckReleased();
}

void JobCore::CheckReleased() {
  if (state() != Job::STATE_STOPPING && state() != Job::STATE_PAUSING) return;
  if (!roster().Held().empty()) return;
  const bool resume =
      state() == Job::STATE_PAUSING && stopping_as_ == Job::STATE_QUEUED;  // see ResumeRequested
  Trigger(JobTrigger::kReleased);
  if (!resume) return;
  stopping_as_ = Job::STATE_CANCELLED;
  On(ResumeRequested{});
}

void JobCore::CheckSlotDeadlines() {
  // An eviction may change any slot, so each one is looked at when its turn comes.
  for (auto late = slots_.NextLate(0, versions_, out_.now()); late.has_value();
       late = slots_.NextLate(late->slot + 1, versions_, out_.now())) {
    const Slot& slot = roster().slots()[late->slot];
    if (late->kind == TaskKind::kReleaseRole) {
      out_.Warn(absl::StrCat("worker ", slot.worker, " did not release the role ", slot.role,
                             " within ", absl::FormatDuration(options_.release_deadline),
                             "; the job gives it back anyway"));
      slots_.Leave(slot, versions_, out_);
      CheckReleased();
      continue;
    }
    const std::string worker = slot.worker;
    out_.Do(StopTask{worker, out_.Ref(late->kind, late->slot, slot.attempt), "no answer in time"});
    Evict(worker, absl::StrCat("no answer to ", MethodName(late->kind), " within ",
                               absl::FormatDuration(options_.setup_deadline)));
  }
}

}  // namespace baton::controller
