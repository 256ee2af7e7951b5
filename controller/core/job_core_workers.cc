// JobCore: who plays which role, and the tasks of taking and leaving roles.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "controller/core/job_core.h"
#include "controller/core/mutation.h"
#include "controller/core/roles.h"

namespace baton::controller {

using Job = v1::Job;

void JobCore::MakeSlots() {
  for (const auto& [role, count] : WorkersOf(spec(), dataflow())) {
    for (int i = 0; i < count; ++i) {
      Slot slot;
      slot.role = role;
      slot.rank = static_cast<uint32_t>(i);
      slots_.push_back(std::move(slot));
    }
  }
  MakeGroups();
}

// Of the roles that train, and of those that score.
void JobCore::MakeGroups() {
  for (const v1::UpdateNode& node : dataflow().update()) {
    Group group;
    group.role = node.role();
    group.ranks = static_cast<uint32_t>(RanksOf(spec(), node.role()));
    const bool actor = group.role == "actor";
    groups_.insert(actor ? groups_.begin() : groups_.end(), std::move(group));
  }
  for (const std::string& role : graph_.roles()) scorers_.emplace(role, options_.pace);
}

RolloutManager& JobCore::ManagerOf(const std::string& role) {
  return role == "rollout" ? rollouts_ : scorers_.at(role).manager;
}

uint64_t JobCore::VersionOf(const Group& group) const {
  return group.role == "actor" ? policy_version_ : group.version;
}

bool JobCore::Mentions(const std::vector<TaskRef>& refs, const TaskRef& ref) {
  return std::find(refs.begin(), refs.end(), ref) != refs.end();
}

Group* JobCore::GroupOf(const std::string& role) {
  const auto group =
      std::find_if(groups_.begin(), groups_.end(), [&](const Group& g) { return g.role == role; });
  return group == groups_.end() ? nullptr : &*group;
}

const Group* JobCore::GroupOf(const std::string& role) const {
  return const_cast<JobCore*>(this)->GroupOf(role);
}

Slot* JobCore::SlotOf(const std::string& worker) {
  for (Slot& slot : slots_) {
    if (slot.worker == worker && slot.state != SlotState::kEmpty) return &slot;
  }
  return nullptr;
}

const Slot* JobCore::SlotOf(const std::string& worker) const {
  return const_cast<JobCore*>(this)->SlotOf(worker);
}

std::string JobCore::RoleOf(const std::string& worker) const {
  const Slot* slot = SlotOf(worker);
  return slot == nullptr ? "" : slot->role;
}

std::map<std::string, std::string> JobCore::HeldWorkers() const {
  std::map<std::string, std::string> held;
  for (const Slot& slot : slots_) {
    if (slot.state != SlotState::kEmpty) held[slot.worker] = slot.role;
  }
  return held;
}

void JobCore::AskForWorkers() {
  NeedWorkers need;
  for (const Slot& slot : slots_) {
    if (slot.state == SlotState::kEmpty) ++need.missing[slot.role];
  }
  Do(std::move(need));
}

void JobCore::On(const WorkerGranted& event) {
  const bool wanted = state() == Job::STATE_QUEUED || state() == Job::STATE_STARTING ||
                      state() == Job::STATE_RUNNING || state() == Job::STATE_RECOVERING ||
                      (state() == Job::STATE_PAUSING && !Releasing());
  auto slot = std::find_if(slots_.begin(), slots_.end(), [&](const Slot& s) {
    return s.role == event.role && s.state == SlotState::kEmpty;
  });
  if (!wanted || slot == slots_.end()) return Do(ReturnWorker{event.worker});
  slot->worker = event.worker;
  slot->credits = event.credits;
  slot->present = true;
  if (state() == Job::STATE_QUEUED) {
    if (!job_.has_start_time()) {
      job_.mutable_start_time()->set_seconds(absl::ToUnixSeconds(now_));
    }
    Trigger(JobTrigger::kWorkersGranted);
    if (!data_loaded_ && !data_loading_) StartLoadingData();
    SetPhase(Phase::kSetUp);
  }
  AssignRole(*slot);
}

void JobCore::AssignRole(Slot& slot) {
  if (Group* group = GroupOf(slot.role)) {
    Gather(slot);
    return FormGroup(*group);
  }
  SendAssign(slot, nullptr);
}

void JobCore::SendAssign(Slot& slot, const Group* group) {
  slot.state = SlotState::kAssigning;
  slot.version = 0;
  slot.loading = false;
  slot.since = now_;
  slot.attempt = std::max(slot.attempt + 1, attempt_base_);
  StartTask task;
  task.worker = slot.worker;
  task.args.role = slot.role;
  task.args.deadline = options_.setup_deadline;
  task.args.policy_version = group != nullptr ? VersionOf(*group) : policy_version_;
  if (group != nullptr) {
    task.args.generation = group->generation;
    task.args.rank = slot.rank;
    task.args.first_worker = FirstWorkerOf(*group);
    task.args.checkpoint_step = saved_step_;
  }
  task.ref = slot.assigned =
      Ref(TaskKind::kAssignRole, static_cast<uint64_t>(IndexOf(slot)), slot.attempt);
  Do(PutJob{});
  Do(std::move(task));
}

void JobCore::OnRoleTask(const TaskDone& event, Slot& slot) {
  if (event.ref.subject != static_cast<uint64_t>(IndexOf(slot)) ||
      event.ref.attempt != slot.attempt) {
    return;
  }
  if (event.ref.kind == TaskKind::kReleaseRole) {
    if (slot.state != SlotState::kReleasing) return;
    Do(ReturnWorker{slot.worker});
    slot.state = SlotState::kEmpty;
    slot.worker.clear();
    Do(PutJob{});
    return CheckReleased();
  }
  if (slot.state != SlotState::kAssigning) return;
  Group* group = GroupOf(slot.role);
  if (group != nullptr && Breaks(*group, event.status)) return BreakGroup(*group, event);
  if (!event.status.ok()) {
    const bool passing = absl::IsUnavailable(event.status) || absl::IsAborted(event.status) ||
                         absl::IsCancelled(event.status);
    if (passing && ++slot.failures < options_.max_attempts) return AssignRole(slot);
    return Fail(absl::Status(event.status.code(),
                             absl::StrCat("worker ", slot.worker, " could not take the role ",
                                          slot.role, ": ", event.status.message())));
  }
  slot.state = SlotState::kReady;
  slot.failures = 0;
  slot.since = now_;
  if (group != nullptr && !HasRank(*group, SlotState::kAssigning)) {
    group->forming_since = absl::InfinitePast();
  }
  Join(slot);
  Do(PutJob{});
  Advance();
}

// It may get work of its role.
void JobCore::Join(const Slot& slot) {
  if (slot.role == "rollout") return rollouts_.AddWorker(slot.worker, slot.credits);
  const auto scorer = scorers_.find(slot.role);
  if (scorer == scorers_.end()) return;
  scorer->second.manager.AddWorker(slot.worker, slot.credits);
  scorer->second.manager.SetEnabled(slot.worker, true);
}

void JobCore::LoadWeights() {
  if (!published_) return;
  for (Slot& slot : slots_) {
    if (slot.role != "rollout" || slot.state != SlotState::kReady || !slot.present) continue;
    const bool current = slot.version == policy_version_;
    rollouts_.SetEnabled(slot.worker, current);
    if (current || slot.loading || rollouts_.load(slot.worker) > 0) continue;
    slot.loading = true;
    slot.loading_version = policy_version_;
    slot.since = now_;
    slot.attempt = std::max(slot.attempt + 1, attempt_base_);
    StartTask task;
    task.worker = slot.worker;
    task.args.role = slot.role;
    task.args.policy_version = policy_version_;
    task.args.deadline = options_.setup_deadline;
    task.ref = Ref(TaskKind::kLoadWeights, static_cast<uint64_t>(IndexOf(slot)), slot.attempt);
    Do(std::move(task));
  }
}

void JobCore::OnLoadWeights(const TaskDone& event, Slot& slot) {
  if (!slot.loading || event.ref.attempt != slot.attempt ||
      event.ref.subject != static_cast<uint64_t>(IndexOf(slot))) {
    return;
  }
  slot.loading = false;
  if (!event.status.ok()) {
    EmitWarning(absl::StrCat("worker ", slot.worker, " could not load policy version ",
                             policy_version_, ": ", event.status.message()));
    if (absl::IsNotFound(event.status)) published_ = false;  // the relay lost it: publish again
    if (++slot.failures >= options_.max_attempts) {
      return Fail(absl::Status(
          event.status.code(),
          absl::StrCat("worker ", slot.worker, " failed ", slot.failures,
                       " times to load the weights; the last: ", event.status.message())));
    }
    return Advance();
  }
  slot.failures = 0;
  slot.version = slot.loading_version;
  LoadWeights();
  const bool all = std::all_of(slots_.begin(), slots_.end(), [&](const Slot& s) {
    return s.role != "rollout" || s.state != SlotState::kReady || s.version == policy_version_;
  });
  if (all && publish_since_ != absl::InfinitePast()) {
    update_weights_seconds_ = absl::ToDoubleSeconds(now_ - publish_since_);
    publish_since_ = absl::InfinitePast();
  }
  Dispatch();
}

void JobCore::On(const WorkerLost& event) {
  if (Slot* slot = SlotOf(event.worker)) LoseSlot(*slot, event.reason);
}

void JobCore::LoseSlot(Slot& slot, const std::string& reason) {
  const std::string worker = slot.worker;
  const bool releasing = slot.state == SlotState::kReleasing;
  if (Group* group = GroupOf(slot.role); group != nullptr && group->broken.has_value()) {
    // This is why it broke, and no fault of the group's.
    group->failures -= std::min(group->failures, 1u);
  }
  rollout_pace_.Forget(worker);
  for (auto& [role, scorer] : scorers_) scorer.pace.Forget(worker);
  const bool had_weights = GroupOf(slot.role) != nullptr && slot.state == SlotState::kReady;
  slot.state = SlotState::kEmpty;
  slot.worker.clear();
  slot.present = false;
  slot.loading = false;
  slot.version = 0;
  slot.since = now_;
  if (releasing || state() == Job::STATE_STOPPING) {
    Do(PutJob{});
    return CheckReleased();
  }
  EmitWarning(absl::StrCat("lost ", slot.role, " worker ", worker, ": ", reason));
  RequeueTasksOf(slot, worker);
  if (had_weights) RecoverTrainer(slot.role, reason);
  if (Group* group = GroupOf(slot.role)) FormAnew(*group);  // without it: whoever is left waits
  if (IsActive(state()) && !Releasing()) AskForWorkers();
  Do(PutJob{});
  Dispatch();
}

// A worker that lives but let a deadline pass.
void JobCore::Evict(Slot& slot, const std::string& reason) {
  Do(ReturnWorker{slot.worker, Conduct::kSilent});
  LoseSlot(slot, reason);
}

// A phase of `role` is over: one that has been slower than its peers for long has to go.
void JobCore::EvictSlow(PeerPace& pace, const std::string& role, const std::string& unit) {
  const auto slow = pace.EndPhase(now_);
  Slot* slot = slow.has_value() ? SlotOf(slow->worker) : nullptr;
  if (slot == nullptr || slot->role != role) return;
  Do(ReturnWorker{slow->worker, Conduct::kSlow});
  LoseSlot(*slot,
           absl::StrFormat("it is drained: %.3g ms a %s, its peers %.3g ms, for %s",
                           slow->seconds * 1e3, unit, slow->peers * 1e3,
                           absl::FormatDuration(absl::Floor(slow->since, absl::Seconds(1)))));
}

void JobCore::RequeueTasksOf(Slot& slot, const std::string& worker) {
  if (slot.role != "rollout" && scorers_.count(slot.role) == 0) return;
  std::vector<uint64_t> lost = ManagerOf(slot.role).RemoveWorker(worker);
  for (auto it = lost.rbegin(); it != lost.rend(); ++it) Requeue(slot, *it);
}

// Work that a worker of the slot's role ran and runs no more.
void JobCore::Requeue(const Slot& slot, uint64_t work) {
  TrajectoryInfo& trajectory = trajectories_.at(TrajectoryOf(work));
  if (slot.role == "rollout") {
    trajectory.attempt = NextAttempt(trajectory.attempt);
    trajectory.state = TrajectoryState::kPending;
  } else {
    NodeTry& tried = trajectory.tries[NodeOf(work)];
    tried.attempt = NextAttempt(tried.attempt);
  }
  ManagerOf(slot.role).EnqueueFirst(work, trajectory.draw);
}

void JobCore::On(const WorkerBack& event) {
  Slot* slot = SlotOf(event.worker);
  if (slot == nullptr) return Do(ReturnWorker{event.worker});
  const bool first_time = !slot->present;  // after a controller restart
  slot->present = true;
  if (slot->state == SlotState::kReleasing) {
    // The release may have been lost on the way: it is repeated, and harmless twice.
    StartTask task;
    task.worker = slot->worker;
    task.args.role = slot->role;
    task.ref = Ref(TaskKind::kReleaseRole, static_cast<uint64_t>(IndexOf(*slot)), slot->attempt);
    return Do(std::move(task));
  }
  auto has = [](const std::vector<TaskRef>& refs, TaskKind kind) {
    return std::any_of(refs.begin(), refs.end(),
                       [&](const TaskRef& ref) { return ref.kind == kind; });
  };
  Group* const group = GroupOf(slot->role);
  if (group != nullptr && HasRank(*group, SlotState::kGathering)) return AssignRole(*slot);
  if (slot->state == SlotState::kAssigning) {
    const auto this_try = [&](const std::vector<TaskRef>& refs) {
      return std::any_of(refs.begin(), refs.end(), [&](const TaskRef& ref) {
        return ref.kind == TaskKind::kAssignRole && ref.attempt == slot->attempt &&
               ref.subject == static_cast<uint64_t>(IndexOf(*slot));
      });
    };
    // A worker that fenced itself still has the result of a role that it holds no more.
    const bool took = this_try(event.unacked) && event.holds_role;
    if (!took && !this_try(event.running)) AssignRole(*slot);
    return;
  }
  if (!event.holds_role) {
    Do(ReturnWorker{event.worker});
    return LoseSlot(*slot, "it forgot its role");
  }
  if (group != nullptr && group->command.has_value()) {
    Command& command = *group->command;
    const TaskRef ref = RefOf(*group);
    const bool known = Mentions(event.running, ref) || Mentions(event.unacked, ref) ||
                       command.answers.count(slot->rank) > 0;
    if (known && Mutated(Mutation::kDoubleUpdate) && phase_ == Phase::kUpdate) {
      command.attempt = NextAttempt(command.attempt);
      SendCommand(*group, *slot);
    }
    if (!known && (command.kind != TaskKind::kUpdate || phase_ == Phase::kUpdate)) {
      SendCommand(*group, *slot);
    }
    if (known && !Mutated(Mutation::kCommandDeadlineNotReset)) {
      command.since = now_;  // its deadline counts from here
    }
    if (known && !begun_) adoptable_.emplace_back(event.worker, ref);
  }
  if (slot->role != "rollout" && scorers_.count(slot->role) == 0) return Advance();
  RolloutManager& manager = ManagerOf(slot->role);
  if (first_time) Join(*slot);
  slot->version = event.policy_version;
  if (!has(event.running, TaskKind::kLoadWeights) && !has(event.unacked, TaskKind::kLoadWeights)) {
    slot->loading = false;
  }
  // What it should run but neither runs nor has finished was lost on the way.
  std::vector<uint64_t> lost;
  for (const auto& [trajectory, running] : manager.running()) {
    if (running.worker != event.worker) continue;
    const TaskRef ref = RefOfWork(slot->role, trajectory);
    if (!Mentions(event.running, ref) && !Mentions(event.unacked, ref)) lost.push_back(trajectory);
  }
  for (uint64_t work : lost) {
    manager.Finish(work);
    Requeue(*slot, work);
  }
  if (first_time) {
    for (const auto* refs : {&event.running, &event.unacked}) {
      for (const TaskRef& ref : *refs) {
        if (!IsGroupCommand(ref.kind)) adoptable_.emplace_back(event.worker, ref);
      }
    }
    if (begun_) AdoptRunning();
  } else if (begun_) {
    StopUnwanted(event.worker, event.running);
  }
  LoadWeights();
  Dispatch();
  Advance();  // it may have been the last that was waited for
}

void JobCore::RecoverTrainer(const std::string& role, const std::string& reason) {
  ClearWork("the trainer restarts from its checkpoint");
  StopCommands("the trainer restarts from its checkpoint");
  ++incarnation_;
  DropCommands();
  update_metrics_.clear();
  no_room_.reset();
  committing_checkpoint_ = false;
  const int64_t lost_steps = step_ - std::max<int64_t>(saved_step_, 0);
  step_ = std::max<int64_t>(saved_step_, 0);
  job_.set_step(step_);
  cursor_ = saved_cursor_;
  algorithm_ = saved_algorithm_;
  evaluated_step_ = std::min(evaluated_step_, step_);
  published_ = false;
  while (!kept_.empty() && kept_.back().step() > step_ && !MutatedStale()) {
    Do(DropTrajectories{kept_.back().first_serial(), next_serial_, 0});
    kept_.pop_back();
  }
  EmitWarning(absl::StrCat(
      "the ", role == "actor" ? "trainer" : role, " is lost (", reason, "); it restarts from step ",
      step_, lost_steps > 0 ? absl::StrCat(", ", lost_steps, " steps are redone") : std::string()));
  Trigger(JobTrigger::kTrainerLost);
  if (state() == Job::STATE_PAUSING) return ReleaseAll();
  SetPhase(Phase::kSetUp);
  // What trains with it goes back to the same checkpoint.
  for (Group& group : groups_) {
    if (HasRank(group, SlotState::kReady)) FormAnew(group);
  }
}

void JobCore::ReleaseAll() {
  SetPhase(Phase::kNone);
  releasing_since_ = now_;
  Do(NeedWorkers{});  // or what it gives back would be granted to it again
  for (Slot& slot : slots_) {
    if (slot.state == SlotState::kEmpty) continue;
    rollouts_.RemoveWorker(slot.worker);
    for (auto& [role, scorer] : scorers_) scorer.manager.RemoveWorker(slot.worker);
    slot.state = SlotState::kReleasing;
    slot.since = now_;
    slot.attempt = std::max(slot.attempt + 1, attempt_base_);
    StartTask task;
    task.worker = slot.worker;
    task.args.role = slot.role;
    task.args.deadline = options_.release_deadline;
    task.ref = Ref(TaskKind::kReleaseRole, static_cast<uint64_t>(IndexOf(slot)), slot.attempt);
    Do(std::move(task));
  }
  Do(PutJob{});
  CheckReleased();
}

void JobCore::CheckReleased() {
  if (state() != Job::STATE_STOPPING && state() != Job::STATE_PAUSING) return;
  const bool all = std::all_of(slots_.begin(), slots_.end(),
                               [](const Slot& s) { return s.state == SlotState::kEmpty; });
  if (!all) return;
  const bool resume =
      state() == Job::STATE_PAUSING && stopping_as_ == Job::STATE_QUEUED;  // see ResumeRequested
  Trigger(JobTrigger::kReleased);
  if (!resume) return;
  stopping_as_ = Job::STATE_CANCELLED;
  On(ResumeRequested{});
}

bool JobCore::Releasing() const {
  return std::any_of(slots_.begin(), slots_.end(),
                     [](const Slot& s) { return s.state == SlotState::kReleasing; });
}

void JobCore::CheckSlotDeadlines() {
  for (Slot& slot : slots_) {
    const absl::Duration age = now_ - slot.since;
    if (slot.state == SlotState::kReleasing && age > options_.release_deadline) {
      EmitWarning(absl::StrCat("worker ", slot.worker, " did not release the role ", slot.role,
                               " within ", absl::FormatDuration(options_.release_deadline),
                               "; it is given back all the same"));
      Do(ReturnWorker{slot.worker});
      slot.state = SlotState::kEmpty;
      slot.worker.clear();
      CheckReleased();
    } else if ((slot.state == SlotState::kAssigning || slot.loading) &&
               age > options_.setup_deadline) {
      const TaskKind kind = slot.loading ? TaskKind::kLoadWeights : TaskKind::kAssignRole;
      Do(StopTask{slot.worker, Ref(kind, static_cast<uint64_t>(IndexOf(slot)), slot.attempt),
                  "no answer in time"});
      Evict(slot, absl::StrCat("no answer to ", MethodName(kind), " within ",
                               absl::FormatDuration(options_.setup_deadline)));
    }
  }
}

}  // namespace baton::controller
