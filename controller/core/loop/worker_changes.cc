#include "controller/core/loop/worker_changes.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "controller/core/job/task_failure.h"
#include "controller/core/loop/assign_work.h"
#include "controller/core/loop/life_changes.h"
#include "controller/core/loop/rollback.h"
#include "controller/core/trajectories/running_tasks.h"
#include "controller/core/workers/slot_views.h"
#include "controller/core/workers/worker_return.h"
#include "controller/spec/dataflow/role_names.h"

namespace baton::controller {

using Job = v1::Job;

namespace {

// Stops tasks that the job no longer needs.
void StopUnwanted(const std::string& worker, const std::vector<TaskRef>& running, JobParts& job) {
  for (const TaskRef& ref : running) {
    if (IsTrajectoryTask(ref.kind) && !job.Wants(worker, ref)) {
      job.out.Do(StopTask{worker, ref, "it is not wanted any more"});
    }
  }
}

// A worker that plays a role of the work came back. `first_time`: since this controller started.
void ResumeResponses(const WorkerReconnected& event, bool first_time, JobParts& job) {
  if (first_time) {
    job.work.reports().NoteTasks(event);
    if (job.work.begun()) AdoptRunning(job);
  } else if (job.work.begun()) {
    StopUnwanted(event.worker, event.running, job);
    job.scheduler.generations().RepeatRecalls(event.worker, job.scheduler.Work(), job.Work());
  }
}

}  // namespace

void AdoptRunning(JobParts& job) {
  for (const ReportBuffer::Running& running : job.work.reports().TakeTasks()) {
    AdoptTask(job.scheduler, running.worker, running.ref, job.roster().hybrid(), job.Work());
    StopUnwanted(running.worker, {running.ref}, job);
  }
}

void PlaceWorker(const WorkerGranted& event, JobParts& job) {
  const Job::State state = job.life.state();
  const bool wanted = state == Job::STATE_QUEUED || state == Job::STATE_STARTING ||
                      state == Job::STATE_RUNNING || state == Job::STATE_RECOVERING ||
                      (state == Job::STATE_PAUSING && !job.roster().AnyIn(SlotState::kReleasing));
  // The grant may answer a need that the job no longer has.
  if (!wanted) return job.out.Do(ReturnWorker{event.worker});
  const std::vector<const RoleSlot*> worker_slot = job.slots.Place(event, job.out.now());
  if (worker_slot.empty()) return job.out.Do(ReturnWorker{event.worker});
  if (state == Job::STATE_QUEUED) {
    // With its first worker the job reads its data.
    job.life.NoteStart(job.out.now());
    Trigger(JobTrigger::kWorkersGranted, job);
    // A job that goes on has responses, and needs their prompts at once.
    const bool goes_on =
        job.out.step() > 0 || !job.prompt_groups.prompts.open().empty() || job.evaluation.active();
    if (!job.data.loaded() && !job.data.loading()) job.data.Load(goes_on, job.out);
    job.Switch(Activity::kSetUp);
  }
  for (const RoleSlot* slot : worker_slot) TakeRoleOn(*slot, job.Roles());
}

void TakeBackWorker(const WorkerReconnected& event, JobParts& job) {
  if (!job.roster().Has(event.worker)) return job.out.Do(ReturnWorker{event.worker});
  const bool first_time = job.slots.Attached(event.worker);
  if (GaveUpRole(event, job.Roles())) {
    job.out.Do(ReturnWorker{event.worker});
    return LoseWorker(event.worker, "it gave up its role while it was cut off", /*moves=*/false,
                      job);
  }
  // Before roles resume: a rank that takes its role on anew begins an epoch of its group, and its
  // command is dropped with the old one.
  NoteCommands(event, job.Roles());
  bool works = false, ready = false;
  for (const RoleSlot* slot : job.roster().Of(event.worker)) {
    ResumeRole(*slot, event, job.Roles());
    if (slot->state != SlotState::kReady) continue;
    ready = true;
    if (job.scheduler.queues().Find(slot->role) == nullptr) continue;
    works = true;
    ResumeWork(*slot, event, first_time, job.Roles());
  }
  if (!ready) return;
  if (works) ResumeResponses(event, first_time, job);
  // Now it is known what the worker runs; a command of a shared pool waits for that.
  for (const RoleSlot* slot : job.roster().Of(event.worker)) {
    SendMissedCommand(*slot, job.Commands());
  }
  job.ahead.OnWorkerReconnected(event, job.out);
  job.Then(FollowUp::kAdvance);  // it may have been the last that was waited for
}

// ---- Roles --------------------------------------------------------------------------------------

void OnRoleTask(const TaskDone& event, const RoleSlot& slot, JobParts& job) {
  if (event.ref.kind == TaskKind::kReleaseRole) {
    // Whatever the answer: the worker counts as having left the role.
    job.slots.Leave(slot, job.versions, job.out);
    job.out.Do(PutJob{});
    return CheckReleased(job);
  }
  const absl::StatusOr<bool> plays = OnRoleTaken(event, slot, job.Roles());
  if (!plays.ok()) return Fail(plays.status(), job);
  if (*plays) job.Then(FollowUp::kAdvance);
}

void OnLoadWeights(const TaskDone& event, const RoleSlot& slot, JobParts& job) {
  const uint64_t index = job.slots.IndexOf(slot);
  if (event.status.ok()) {
    job.slots.ForgetFailures(slot);
    job.versions.replicas().Loaded(index);
    // A newer version may have been published while the worker loaded this one.
    LoadWeights(job);
    job.versions.NoteWhenAllHold(job.roster(), job.out.now());
    return job.Then(FollowUp::kAssignWork);
  }
  const uint64_t version = job.versions.replicas().Of(index).loading;
  job.versions.replicas().StopLoading(index);
  job.out.Warn(absl::StrCat("worker ", slot.worker, " could not load policy version ", version,
                            ": ", event.status.message()));
  if (FailureOf(event) == TaskFailure::kNotFound) {
    // The relay lost the version, by a restart or for want of room.
    const bool apart = job.versions.relays().IsApart(slot.worker, job.roster());
    if (apart) job.versions.relays().Lost(slot.worker, version, job.out.now());
    if (job.evaluation.pin().version == version && version != job.versions.newest()) {
      job.out.Warn(
          absl::StrCat(job.evaluation.name(), " is given up: the relay no longer has its weights"));
      DropEvaluation("the relay no longer has its weights", job);
    }
    // This version is not wanted any more: a newer one came meanwhile.
    const uint64_t served = job.versions.served();
    if (served != 0 && version != served) return job.Then(FollowUp::kAdvance);
    // The actor publishes it again. A host apart from the actor's is said to have it: the worker
    // looks again.
    if (!apart) job.versions.Unpublish();
  }
  if (job.slots.CountFailure(slot) >= job.options.max_attempts) {
    return Fail(absl::Status(
                    event.status.code(),
                    absl::StrCat("worker ", slot.worker, " failed ", slot.failures,
                                 " times to load the weights; the last: ", event.status.message())),
                job);
  }
  job.Then(FollowUp::kAdvance);
}

// ---- Workers that go ----------------------------------------------------------------------------

void LoseWorker(const std::string& worker, const std::string& reason, bool moves, JobParts& job) {
  const auto loss = job.slots.Lose(worker, job.groups, job.versions, job.out.now());
  if (!loss.has_value()) return;
  job.scheduler.queues().ForgetSamples(worker);
  job.work.reports().Forget(worker);
  job.ahead.Forget(worker);
  // The loss does no harm to a job that is giving its workers back.
  if (loss->releasing || job.life.state() == Job::STATE_STOPPING) {
    job.out.Do(PutJob{});
    return CheckReleased(job);
  }
  job.out.Warn(absl::StrCat("lost ", loss->worker_slot, " worker ", worker, ": ", reason));
  for (const std::string& role : loss->roles) {
    TakeTasksBack(job.scheduler, role, worker, /*stop=*/"", job.out);
  }
  // First the rollback, which changes the step; then groups meet for the step that is next.
  if (!loss->trained.empty()) RecoverTrainer(loss->trained, reason, job);
  for (const std::string& role : loss->roles) {  // without it: the ranks that are left wait
    if (const Group* group = job.groups.Find(role)) FormAnew(*group, job.Roles());
  }
  // If the worker moves, the queue has already found a replacement.
  if (IsActive(job.life.state()) && !job.roster().AnyIn(SlotState::kReleasing) && !moves) {
    job.out.Do(NeedOf(job.roster(), job.groups));
  }
  job.out.Do(PutJob{});
  job.Then(FollowUp::kAssignWork);
}

void Evict(const std::string& worker, const std::string& reason, JobParts& job) {
  // The queue counts the worker as silent, so it gets no new work at once.
  job.out.Do(ReturnWorker{worker, ReturnReason::kSilent});
  LoseWorker(worker, reason, /*moves=*/false, job);
}

void DrainSlow(StragglerDetector& stragglers, const std::string& role, const std::string& unit,
               JobParts& job) {
  const auto slow = stragglers.EndPhase(job.out.now());
  if (!slow.has_value() || job.roster().Find(slow->worker, role) == nullptr) return;
  for (const RoleSlot* slot : job.roster().Of(slow->worker)) {
    // A rank is not drained, because its group would go back to the checkpoint, which costs more.
    if (job.groups.Find(slot->role) != nullptr) return;
  }
  job.out.Do(ReturnWorker{slow->worker, ReturnReason::kSlow});
  LoseWorker(
      slow->worker,
      absl::StrFormat("it is drained: it takes %.3g ms a %s and its peers take %.3g ms, for %s",
                      slow->seconds * 1e3, unit, slow->peers * 1e3,
                      absl::FormatDuration(absl::Floor(slow->since, absl::Seconds(1)))),
      /*moves=*/false, job);
}

// ---- Groups -------------------------------------------------------------------------------------

void OnGroupBroken(const Group& group, const TaskDone& event, JobParts& job) {
  const absl::Status status = BreakGroup(group, event, job.Roles());
  if (!status.ok()) Fail(status, job);
}

// A rank may notice the loss of another rank before that rank's lease ends. By now the lease has
// ended, or no rank is lost.
void CheckGroups(JobParts& job) {
  for (const Group& group : job.groups.all()) {
    const auto reason = job.groups.TakeBroken(group, job.options.regroup_delay, job.out.now());
    if (!reason.has_value()) continue;
    if (group.trains && job.roster().AnyIn(group.role, SlotState::kReady)) {
      // Some ranks may have made the update and others not, so all go back to the checkpoint.
      RecoverTrainer(group.role, *reason, job);  // forms all groups that train anew
    } else {
      FormAnew(group, job.Roles());
    }
  }
}

// ---- Deadlines ----------------------------------------------------------------------------------

namespace {

// A rollout that cannot get the weights is of no use.
void CheckLacking(JobParts& job) {
  std::vector<std::string> workers;  // first, for an eviction changes the slots
  for (const auto& [slot, since] : job.versions.lacking()) {
    const bool late = job.out.now() - since > job.options.setup_deadline;
    if (late) workers.push_back(job.roster().slots()[slot].worker);
  }
  for (const std::string& worker : workers) {
    if (!job.roster().Has(worker)) continue;
    Evict(worker,
          absl::StrCat("policy version ", job.versions.served(), " has not arrived at ",
                       job.versions.relays().RelayText(worker), " within ",
                       absl::FormatDuration(job.options.setup_deadline)),
          job);
  }
}

}  // namespace

void CheckSlotDeadlines(JobParts& job) {
  // An eviction may change any slot, so each slot is looked up when its turn comes.
  const auto next = [&](size_t from) {
    return NextLate(job.roster(), from, job.versions, job.options, job.out.now());
  };
  for (auto late = next(0); late.has_value(); late = next(late->slot + 1)) {
    const RoleSlot& slot = job.roster().slots()[late->slot];
    if (late->kind == TaskKind::kReleaseRole) {
      // A job that ends does not wait for its workers. The queue does: no other job gets the worker
      // before it has left.
      job.out.Warn(absl::StrCat("worker ", slot.worker, " did not release the role ", slot.role,
                                " within ", absl::FormatDuration(job.options.release_deadline),
                                "; the job gives it back anyway"));
      job.slots.Leave(slot, job.versions, job.out, ReturnReason::kStuck);
      CheckReleased(job);
      continue;
    }
    const std::string worker = slot.worker;
    job.out.Do(
        StopTask{worker, job.out.Ref(late->kind, late->slot, slot.attempt), "no answer in time"});
    Evict(worker,
          absl::StrCat("no answer to ", MethodName(late->kind), " within ",
                       absl::FormatDuration(job.options.setup_deadline)),
          job);
  }
  CheckLacking(job);
}

}  // namespace baton::controller
