// JobCore: who plays which role, and the tasks of taking and leaving roles.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "controller/core/job_core.h"
#include "controller/core/mutation.h"
#include "controller/core/roles.h"

namespace baton::controller {

using Job = v1::Job;

void JobCore::MakeGroups() {
  for (const GroupRole& role : GroupRolesOf(spec(), dataflow())) {
    Group group;
    group.role = role.role;
    group.trains = role.trains;
    group.ranks = static_cast<uint32_t>(RanksOf(spec(), role.role));
    group.tp = static_cast<uint32_t>(ShapeOf(spec(), role.role).tp);
    groups_.push_back(std::move(group));
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

std::string JobCore::RoleOf(const TaskRef& ref) const {
  if (ref.kind == TaskKind::kGenerate) return "rollout";
  if (ref.kind == TaskKind::kScore) {
    return ref.part < static_cast<uint32_t>(graph_.size()) ? graph_.role(ref.part) : "";
  }
  if (IsGroupCommand(ref.kind)) return ref.part < groups_.size() ? groups_[ref.part].role : "";
  return ref.subject < roster_.slots().size() ? roster_.slots()[ref.subject].role : "";
}

void JobCore::AskForWorkers() {
  const auto any = [](const std::string& roles, const auto& is) {
    const std::vector<std::string> all = absl::StrSplit(roles, '+');
    return std::any_of(all.begin(), all.end(), is);
  };
  const auto grouped = [&](const std::string& role) { return GroupOf(role) != nullptr; };
  const auto blocks = [&](const std::string& role) {  // a group needs all, the others one
    const auto& slots = roster_.slots();
    return grouped(role) || std::all_of(slots.begin(), slots.end(), [&](const Slot& slot) {
             return slot.role != role || slot.state == SlotState::kEmpty;
           });
  };
  NeedWorkers need{roster_.Missing(), {}};
  for (const auto& [roles, count] : need.missing) {
    if (any(roles, blocks)) need.hints.blocking.insert(roles);
  }
  for (const auto& [worker, roles] : roster_.Held()) {
    if (any(roles, grouped)) need.hints.anchored.insert(roles);
  }
  Do(std::move(need));
}

void JobCore::On(const WorkerGranted& event) {
  const bool wanted = state() == Job::STATE_QUEUED || state() == Job::STATE_STARTING ||
                      state() == Job::STATE_RUNNING || state() == Job::STATE_RECOVERING ||
                      (state() == Job::STATE_PAUSING && !Releasing());
  const std::vector<Slot*> seat = roster_.FreeSeat(event.roles);
  if (!wanted || seat.empty()) return Do(ReturnWorker{event.worker});
  for (Slot* slot : seat) {
    const auto credits = event.credits.find(slot->role);
    slot->worker = event.worker;
    slot->credits = credits == event.credits.end() ? 1 : credits->second;
    slot->present = true;
    slot->state = SlotState::kGathering;  // until AssignRole
    slot->since = now_;
  }
  if (state() == Job::STATE_QUEUED) {
    if (!job_.has_start_time()) {
      job_.mutable_start_time()->set_seconds(absl::ToUnixSeconds(now_));
    }
    Trigger(JobTrigger::kWorkersGranted);
    if (!data_loaded_ && !data_loading_) StartLoadingData();
    SetPhase(Phase::kSetUp);
  }
  for (Slot* slot : seat) AssignRole(*slot);
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
  slot.attempt = NextAttempt(slot.attempt);
  StartTask task;
  task.worker = slot.worker;
  task.args.role = slot.role;
  task.args.deadline = options_.setup_deadline;
  task.args.policy_version =
      group != nullptr && group->trains ? VersionOf(*group) : policy_version_;
  if (group != nullptr) {
    task.args.generation = group->generation;
    task.args.rank = slot.rank;
    task.args.first_worker = roster_.FirstOf(group->role);
    if (group->trains) task.args.checkpoint_step = saved_step_;
  }
  task.args.hybrid = roster_.hybrid() && (slot.role == "actor" || slot.role == "rollout");
  task.ref = slot.assigned = Ref(TaskKind::kAssignRole, IndexOf(slot), slot.attempt);
  Do(PutJob{});
  Do(std::move(task));
}

void JobCore::OnRoleTask(const TaskDone& event, Slot& slot) {
  if (event.ref.attempt != slot.attempt) return;
  if (event.ref.kind == TaskKind::kReleaseRole) {
    if (slot.state != SlotState::kReleasing) return;
    Empty(slot);
    if (!roster_.Has(event.worker)) Do(ReturnWorker{event.worker});
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
  if (group == nullptr) {
    Join(slot);
  } else if (roster_.AllReady(group->role)) {
    group->forming_since = absl::InfinitePast();
    for (const Slot& rank : roster_.slots()) {
      if (rank.role == group->role) Join(rank);
    }
  }
  Do(PutJob{});
  Advance();
}

// It may get work of its role; the ranks of a group once all are ready.
void JobCore::Join(const Slot& slot) {
  if (slot.role == "rollout") return rollouts_.AddWorker(slot.worker, slot.credits);
  const auto scorer = scorers_.find(slot.role);
  if (scorer == scorers_.end()) return;
  const Group* group = GroupOf(slot.role);
  if (group != nullptr && (group->broken.has_value() || !roster_.AllReady(slot.role))) return;
  const bool follows = group != nullptr && slot.rank % group->tp != 0;
  if (follows && !Mutated(Mutation::kEveryRankScores)) return;  // it follows the first of its copy
  scorer->second.manager.AddWorker(slot.worker, slot.credits);
  scorer->second.manager.SetEnabled(slot.worker, true);
}

void JobCore::LoadWeights() {
  if (!published_) return;
  TakeTurns();
  for (Slot& slot : roster_.slots()) {
    if (slot.role != "rollout" || !slot.ready()) continue;
    if (roster_.hybrid()) slot.version = policy_version_;  // it is its worker's own
    const bool current = slot.version == policy_version_;
    rollouts_.SetEnabled(slot.worker, current);
    if (current || slot.loading || rollouts_.load(slot.worker) > 0 || !HasTurn(slot.role)) continue;
    slot.loading = true;
    slot.loading_version = policy_version_;
    slot.since = now_;
    slot.attempt = NextAttempt(slot.attempt);
    StartTask task;
    task.worker = slot.worker;
    task.args.role = slot.role;
    task.args.policy_version = policy_version_;
    task.args.deadline = options_.setup_deadline;
    task.ref = Ref(TaskKind::kLoadWeights, IndexOf(slot), slot.attempt);
    Do(std::move(task));
  }
}

void JobCore::OnLoadWeights(const TaskDone& event, Slot& slot) {
  if (!slot.loading || event.ref.attempt != slot.attempt) return;
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
  const auto& slots = roster_.slots();
  const bool all = std::all_of(slots.begin(), slots.end(), [&](const Slot& s) {
    return s.role != "rollout" || s.state != SlotState::kReady || s.version == policy_version_;
  });
  if (all && publish_since_ != absl::InfinitePast()) {
    update_weights_seconds_ = absl::ToDoubleSeconds(now_ - publish_since_);
    publish_since_ = absl::InfinitePast();
  }
  Dispatch();
}

void JobCore::On(const WorkerLost& event) {
  if (event.moves) {  // it takes on another role next, and leaves these
    for (Slot* slot : roster_.Of(event.worker)) SendRelease(*slot);
  }
  LoseWorker(event.worker, event.reason, event.moves);
}

void JobCore::Empty(Slot& slot) {
  slot.state = SlotState::kEmpty;
  slot.worker.clear();
  slot.present = false;
  slot.loading = false;
  slot.version = 0;
  slot.since = now_;
}

void JobCore::LoseWorker(std::string worker, const std::string& reason, bool moves) {
  const std::vector<Slot*> slots = roster_.Of(worker);
  if (slots.empty()) return;
  const std::string roles = roster_.Held().at(worker);
  bool releasing = false;
  std::string trained;  // a role whose weights are gone with it
  for (Slot* slot : slots) {
    releasing |= slot->state == SlotState::kReleasing;
    if (Group* group = GroupOf(slot->role)) {
      // If it is broken, this is why, and no fault of the group's.
      if (group->broken.has_value()) group->failures -= std::min(group->failures, 1u);
      const bool holds = group->trains && slot->state == SlotState::kReady;
      if (holds && trained != "actor") trained = slot->role;
    }
    Empty(*slot);
  }
  rollout_pace_.Forget(worker);
  for (auto& [role, scorer] : scorers_) scorer.pace.Forget(worker);
  if (releasing || state() == Job::STATE_STOPPING) {
    Do(PutJob{});
    return CheckReleased();
  }
  EmitWarning(absl::StrCat("lost ", roles, " worker ", worker, ": ", reason));
  for (Slot* slot : slots) RequeueTasksOf(*slot, worker);
  if (!trained.empty()) RecoverTrainer(trained, reason);
  for (Slot* slot : slots) {  // without it: whoever is left waits
    if (Group* group = GroupOf(slot->role)) FormAnew(*group);
  }
  // For who moves the queue has found somebody.
  if (IsActive(state()) && !Releasing() && !moves) AskForWorkers();
  Do(PutJob{});
  Dispatch();
}

// A worker that lives but let a deadline pass, or does not hold what it took on.
void JobCore::Evict(const std::string& worker, const std::string& reason) {
  Do(ReturnWorker{worker, Conduct::kSilent});
  LoseWorker(worker, reason);
}

// A phase of `role` is over: one that has been slower than its peers for long has to go.
void JobCore::EvictSlow(PeerPace& pace, const std::string& role, const std::string& unit) {
  const auto slow = pace.EndPhase(now_);
  if (!slow.has_value() || roster_.Find(slow->worker, role) == nullptr) return;
  for (const Slot* slot : roster_.Of(slow->worker)) {
    if (GroupOf(slot->role) != nullptr) return;  // a rank is not drained
  }
  Do(ReturnWorker{slow->worker, Conduct::kSlow});
  LoseWorker(slow->worker,
             absl::StrFormat("it is drained: %.3g ms a %s, its peers %.3g ms, for %s",
                             slow->seconds * 1e3, unit, slow->peers * 1e3,
                             absl::FormatDuration(absl::Floor(slow->since, absl::Seconds(1)))));
}

// `stop`: why the worker, which lives, need not go on with them; empty: it is lost.
void JobCore::RequeueTasksOf(Slot& slot, const std::string& worker, const std::string& stop) {
  if (slot.role != "rollout" && scorers_.count(slot.role) == 0) return;
  std::vector<uint64_t> lost = ManagerOf(slot.role).RemoveWorker(worker);
  for (auto it = lost.rbegin(); it != lost.rend(); ++it) {
    if (!stop.empty()) Do(StopTask{worker, RefOfWork(slot.role, *it), stop});
    Requeue(slot, *it);
  }
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
  const std::vector<Slot*> slots = roster_.Of(event.worker);
  if (slots.empty()) return Do(ReturnWorker{event.worker});
  const bool first_time = !slots.front()->present;  // after a controller restart
  for (Slot* slot : slots) slot->present = true;
  for (const Slot* slot : slots) {
    if (slot->state != SlotState::kReady || event.holds.count(slot->role) > 0) continue;
    if (const Group* group = GroupOf(slot->role);
        group != nullptr && roster_.AnyIn(group->role, SlotState::kGathering)) {
      continue;  // it takes the role on again
    }
    Do(ReturnWorker{event.worker});
    return LoseWorker(event.worker, "it forgot its role");
  }
  for (const Slot* slot : slots) NoteCommand(*slot, event);
  bool works = false, ready = false;
  for (Slot* slot : slots) {
    Back(*slot, event);
    if (slot->state != SlotState::kReady) continue;
    ready = true;
    if (slot->role != "rollout" && scorers_.count(slot->role) == 0) continue;
    works = true;
    BackToWork(*slot, event, first_time);
  }
  if (!ready) return;
  if (works && first_time) {
    const auto held = event.holds.find("rollout");
    const uint64_t version = held == event.holds.end() ? 0 : held->second;
    for (const auto* refs : {&event.running, &event.unacked}) {
      for (const TaskRef& ref : *refs) {
        if (!IsGroupCommand(ref.kind)) adoptable_.push_back({event.worker, ref, version});
      }
    }
    if (begun_) AdoptRunning();
  } else if (works && begun_) {
    StopUnwanted(event.worker, event.running);
  }
  LoadWeights();
  Dispatch();
  Advance();  // it may have been the last that was waited for
}

// What a worker that came back has to do to take a role on or to leave it.
void JobCore::Back(Slot& slot, const WorkerBack& event) {
  if (slot.state == SlotState::kReleasing) {
    // The release may have been lost on the way: it is repeated, and harmless twice.
    StartTask task;
    task.worker = slot.worker;
    task.args.role = slot.role;
    task.ref = Ref(TaskKind::kReleaseRole, IndexOf(slot), slot.attempt);
    return Do(std::move(task));
  }
  Group* const group = GroupOf(slot.role);
  if (group != nullptr && roster_.AnyIn(group->role, SlotState::kGathering)) {
    return AssignRole(slot);
  }
  if (slot.state == SlotState::kAssigning) {
    const auto this_try = [&](const std::vector<TaskRef>& refs) {
      return std::any_of(refs.begin(), refs.end(), [&](const TaskRef& ref) {
        return ref.kind == TaskKind::kAssignRole && ref.attempt == slot.attempt &&
               ref.subject == IndexOf(slot);
      });
    };
    // A worker that fenced itself still has the result of a role that it holds no more.
    const bool took = this_try(event.unacked) && event.holds.count(slot.role) > 0;
    if (!took && !this_try(event.running)) AssignRole(slot);
    return;
  }
  const bool missed =
      group != nullptr && group->command.has_value() && group->command->sent.count(slot.rank) == 0;
  if (missed && (group->command->kind != TaskKind::kUpdate || phase_ == Phase::kUpdate)) {
    SendCommand(*group, slot);
  }
}

// Whether a worker that came back has its group's command.
void JobCore::NoteCommand(const Slot& slot, const WorkerBack& event) {
  Group* const group = GroupOf(slot.role);
  if (group == nullptr || slot.state != SlotState::kReady || !group->command.has_value()) return;
  Command& command = *group->command;
  const TaskRef ref = RefOf(*group);
  const bool known = Mentions(event.running, ref) || Mentions(event.unacked, ref) ||
                     command.answers.count(slot.rank) > 0;
  if (!known) {
    command.sent.erase(slot.rank);
    return;
  }
  command.sent.insert(slot.rank);
  if (Mutated(Mutation::kDoubleUpdate) && phase_ == Phase::kUpdate) {
    command.attempt = NextAttempt(command.attempt);
    SendCommand(*group, slot);
  }
  if (!Mutated(Mutation::kCommandDeadlineNotReset)) {
    command.since = now_;  // its deadline counts from here
  }
}

// What it should run but neither runs nor has finished was lost on the way.
void JobCore::BackToWork(Slot& slot, const WorkerBack& event, bool first_time) {
  const auto has = [](const std::vector<TaskRef>& refs, TaskKind kind) {
    return std::any_of(refs.begin(), refs.end(),
                       [&](const TaskRef& ref) { return ref.kind == kind; });
  };
  RolloutManager& manager = ManagerOf(slot.role);
  if (first_time) Join(slot);
  const auto held = event.holds.find(slot.role);
  slot.version = held == event.holds.end() ? 0 : held->second;
  if (!has(event.running, TaskKind::kLoadWeights) && !has(event.unacked, TaskKind::kLoadWeights)) {
    slot.loading = false;
  }
  for (const TaskRef& ref : event.running) {  // begun under another controller
    if (ref.kind == TaskKind::kLoadWeights && ref.subject == IndexOf(slot) && !slot.loading) {
      Do(StopTask{slot.worker, ref, "it is not wanted any more"});
    }
  }
  std::vector<uint64_t> lost;
  for (const auto& [work, running] : manager.running()) {
    if (running.worker != event.worker) continue;
    const TaskRef ref = RefOfWork(slot.role, work);
    if (!Mentions(event.running, ref) && !Mentions(event.unacked, ref)) lost.push_back(work);
  }
  for (uint64_t work : lost) {
    manager.Finish(work);
    Requeue(slot, work);
  }
}

// `role`: that is lost for `reason`; empty: none is, and the reason says it all.
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
  const std::string what = role.empty() ? reason
                                        : absl::StrCat("the ", role == "actor" ? "trainer" : role,
                                                       " is lost (", reason, ")");
  EmitWarning(absl::StrCat(
      what, "; it restarts from step ", step_,
      lost_steps > 0 ? absl::StrCat(", ", lost_steps, " steps are redone") : std::string()));
  Trigger(JobTrigger::kTrainerLost);
  if (state() == Job::STATE_PAUSING) return ReleaseAll();
  SetPhase(Phase::kSetUp);
  // What trains with it goes back to the same checkpoint.
  for (Group& group : groups_) {
    if (group.trains && roster_.AnyIn(group.role, SlotState::kReady)) FormAnew(group);
  }
}

void JobCore::ReleaseAll() {
  SetPhase(Phase::kNone);
  releasing_since_ = now_;
  Do(NeedWorkers{});  // or what it gives back would be granted to it again
  for (Slot& slot : roster_.slots()) {
    if (slot.state == SlotState::kEmpty) continue;
    rollouts_.RemoveWorker(slot.worker);
    for (auto& [role, scorer] : scorers_) scorer.manager.RemoveWorker(slot.worker);
    slot.state = SlotState::kReleasing;
    slot.since = now_;
    SendRelease(slot);
  }
  for (Group& group : groups_) group.broken.reset();  // its ranks are given back: nobody waits
  Do(PutJob{});
  CheckReleased();
}

void JobCore::SendRelease(Slot& slot) {
  slot.attempt = NextAttempt(slot.attempt);
  StartTask task;
  task.worker = slot.worker;
  task.args.role = slot.role;
  task.args.deadline = options_.release_deadline;
  task.ref = Ref(TaskKind::kReleaseRole, IndexOf(slot), slot.attempt);
  Do(std::move(task));
}

void JobCore::CheckReleased() {
  if (state() != Job::STATE_STOPPING && state() != Job::STATE_PAUSING) return;
  if (!roster_.Held().empty()) return;
  const bool resume =
      state() == Job::STATE_PAUSING && stopping_as_ == Job::STATE_QUEUED;  // see ResumeRequested
  Trigger(JobTrigger::kReleased);
  if (!resume) return;
  stopping_as_ = Job::STATE_CANCELLED;
  On(ResumeRequested{});
}

void JobCore::CheckSlotDeadlines() {
  for (Slot& slot : roster_.slots()) {
    const absl::Duration age = now_ - slot.since;
    if (slot.state == SlotState::kReleasing && age > options_.release_deadline) {
      EmitWarning(absl::StrCat("worker ", slot.worker, " did not release the role ", slot.role,
                               " within ", absl::FormatDuration(options_.release_deadline),
                               "; it is given back all the same"));
      const std::string worker = slot.worker;
      Empty(slot);
      if (!roster_.Has(worker)) Do(ReturnWorker{worker});
      CheckReleased();
    } else if ((slot.state == SlotState::kAssigning || slot.loading) &&
               age > options_.setup_deadline) {
      const TaskKind kind = slot.loading ? TaskKind::kLoadWeights : TaskKind::kAssignRole;
      Do(StopTask{slot.worker, Ref(kind, IndexOf(slot), slot.attempt), "no answer in time"});
      Evict(slot.worker, absl::StrCat("no answer to ", MethodName(kind), " within ",
                                      absl::FormatDuration(options_.setup_deadline)));
    }
  }
}

}  // namespace baton::controller
