// JobCore: the trajectories of a step: drawn, generated, scored.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/core/job_core.h"
#include "controller/core/lost_groups.h"
#include "controller/core/metric_names.h"
#include "controller/core/mutation.h"
#include "controller/core/roles.h"

namespace baton::controller {

using Job = v1::Job;

namespace {

// A failure that another try cannot mend.
bool IsPermanent(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsNotFound(status) ||
         absl::IsUnimplemented(status) || absl::IsPermissionDenied(status) ||
         absl::IsOutOfRange(status);
}

// What a rank says that misses another one.
bool LosesRank(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

bool IsGenerated(const TrajectoryInfo& trajectory) {
  return trajectory.state == TrajectoryState::kScoring ||
         trajectory.state == TrajectoryState::kReady;
}

}  // namespace

void JobCore::SetPhase(Phase phase) {
  phase_ = phase;
  phase_since_ = now_;
}

uint32_t JobCore::samples(v1::Purpose purpose) const {
  if (!is_rl()) return 1;
  return static_cast<uint32_t>(purpose == v1::PURPOSE_EVAL ? spec().rollout().val().n()
                                                           : spec().rollout().n());
}

int64_t JobCore::StepOf(v1::Purpose purpose) const {
  return purpose == v1::PURPOSE_EVAL ? step_ : step_ + 1;
}

const TrajectoryInfo* JobCore::Find(uint64_t trajectory) const {
  const auto it = trajectories_.find(trajectory);
  return it == trajectories_.end() ? nullptr : &it->second;
}

uint64_t JobCore::ValSize() const {
  const auto limit = static_cast<uint64_t>(spec().data().val_max_samples());
  return limit == 0 ? val_sources_.size() : std::min<uint64_t>(limit, val_sources_.size());
}

TaskRef JobCore::Ref(TaskKind kind, uint64_t subject, uint64_t attempt, uint32_t part) const {
  TaskRef ref;
  ref.kind = kind;
  ref.subject = subject;
  ref.part = part;
  ref.attempt = attempt;
  ref.step = step_;
  ref.incarnation = incarnation_;
  return ref;
}

bool JobCore::Wants(const std::string& worker, const TaskRef& ref) const {
  if (ref.kind == TaskKind::kAssignRole || ref.kind == TaskKind::kReleaseRole ||
      ref.kind == TaskKind::kLoadWeights) {
    const Slot* slot = roster_.At(ref.subject, worker);
    if (slot == nullptr || ref.attempt != slot->attempt) return false;
    return ref.kind == TaskKind::kAssignRole    ? slot->state == SlotState::kAssigning
           : ref.kind == TaskKind::kReleaseRole ? slot->state == SlotState::kReleasing
                                                : slot->loading;
  }
  if (roster_.Find(worker, RoleOf(ref)) == nullptr) return false;
  if (ref.incarnation != incarnation_ || ref.step != step_) return false;
  if (IsGroupCommand(ref.kind)) {
    const Group& group = groups_[ref.part];
    return group.command.has_value() && ref == RefOf(group);
  }
  if (!begun_) return IsActive(state()) && state() != Job::STATE_STOPPING;
  auto it = trajectories_.find(ref.subject);
  if (it == trajectories_.end()) return false;
  const bool generates = ref.kind == TaskKind::kGenerate;
  if (!generates && ref.part >= it->second.tries.size()) return false;
  const uint64_t attempt = generates ? it->second.attempt : it->second.tries[ref.part].attempt;
  if (attempt != ref.attempt && !Mutated(Mutation::kStaleTokenAccepted)) return false;
  const std::string& role = generates ? std::string("rollout") : graph_.role(ref.part);
  const RolloutManager& manager = generates ? rollouts_ : scorers_.at(role).manager;
  const auto running =
      manager.running().find(generates ? ref.subject : WorkId(ref.subject, ref.part));
  if (running == manager.running().end()) return false;
  return running->second.worker == worker || Mutated(Mutation::kStaleTokenAccepted);
}

TaskRef JobCore::RefOf(const Group& group) const {
  const auto index = static_cast<uint32_t>(&group - groups_.data());
  return Ref(group.command->kind, group.command->sequence, group.command->attempt, index);
}

TaskRef JobCore::RefOfWork(const std::string& role, uint64_t work) const {
  const TrajectoryInfo& trajectory = trajectories_.at(TrajectoryOf(work));
  if (role == "rollout") return Ref(TaskKind::kGenerate, trajectory.id, trajectory.attempt);
  const uint32_t node = NodeOf(work);
  return Ref(TaskKind::kScore, trajectory.id, trajectory.tries[node].attempt, node);
}

bool JobCore::SetUpDone() const {
  if (!data_loaded_) return false;
  // To start, one worker of every role, and all of a group; to go on, all that train.
  const bool goes_on = state() == Job::STATE_RUNNING || state() == Job::STATE_PAUSING;
  std::map<std::string, bool> one;
  for (const Slot& slot : roster_.slots()) {
    const Group* group = GroupOf(slot.role);
    if (group != nullptr && !slot.ready() && (group->trains || !goes_on)) return false;
    one[slot.role] |= slot.ready();
  }
  return goes_on ||
         std::all_of(one.begin(), one.end(), [](const auto& role) { return role.second; });
}

bool JobCore::Busy() const {
  return phase_ == Phase::kGenerate || phase_ == Phase::kEvaluate || phase_ == Phase::kBatch ||
         Commanded() || committing_checkpoint_;
}

bool JobCore::EvaluationDue() const {
  return is_rl() && evaluated_step_ != step_ && EvaluatesAfter(step_);
}

bool JobCore::EvaluatesAfter(int64_t step) const {
  if (val_sources_.empty()) return false;
  const v1::TrainerSpec& trainer = spec().trainer();
  if (step == 0) return trainer.val_before_train();
  if (step >= job_.total_steps()) return trainer.val_after_train();
  return trainer.test_freq() > 0 && step % trainer.test_freq() == 0;
}

bool JobCore::SaveDue() const {
  if (saved_step_ == step_) return false;
  if (state() == Job::STATE_PAUSING || step_ >= job_.total_steps()) return true;
  const int freq = spec().trainer().save_freq();
  return freq > 0 && step_ > 0 && step_ % freq == 0;
}

void JobCore::Advance() {
  if (!IsActive(state()) || state() == Job::STATE_STOPPING) return;
  if (restored_ && !begun_ && Commanded(TaskKind::kUpdate)) {
    // A restart in the middle of an update: its batch is rebuilt from the READY rows.
    if (SetUpDone()) BeginStep();
    return;
  }
  if (Busy()) {
    const bool working = phase_ == Phase::kGenerate || phase_ == Phase::kEvaluate;
    if (working && is_rl() && !published_ && !Commanded() && !WaitsForRoom() && SetUpDone()) {
      // The relay lost the version that work goes on with.
      IssueCommand(HandOver(), actor_group());
    }
    LoadWeights();
    return Dispatch();
  }
  if (!SetUpDone()) return SetPhase(Phase::kSetUp);
  if (WaitsForRoom()) return;
  if (state() == Job::STATE_STARTING || state() == Job::STATE_RECOVERING) {
    Trigger(JobTrigger::kSetUp);
  }
  if (is_rl() && !published_) return IssueCommand(HandOver(), actor_group());
  LoadWeights();
  const bool pausing = state() == Job::STATE_PAUSING;  // what is due is done after the pause
  if (EvaluationDue() && (!pausing || Restored(v1::PURPOSE_EVAL))) return BeginEvaluation();
  if (SaveDue()) return IssueSave();
  if (step_ >= job_.total_steps() && !EvaluationDue()) {
    return Stop(Job::STATE_SUCCEEDED, JobTrigger::kFinish);
  }
  if (pausing && !Restored(v1::PURPOSE_TRAIN)) return ReleaseAll();
  BeginStep();
}

void JobCore::StartLoadingData() {
  data_loading_ = true;
  data_since_ = now_;
  Do(LoadData{});
}

void JobCore::KeepStep() {
  store::v1::StepSerials kept;
  kept.set_step(step_ + 1);
  kept.set_first_serial(next_serial_);
  if (kept_.empty() || kept_.back().step() != kept.step()) kept_.push_back(kept);
  while (kept_.size() > options_.kept_steps) {
    Do(DropTrajectories{kept_[0].first_serial(), kept_[1].first_serial(), kept_[1].first_file()});
    kept_.erase(kept_.begin());
  }
  Do(PutJob{});
}

// The payloads of the phase's trajectories are kept as long as its step.
void JobCore::KeepFiles() {
  if (kept_.empty()) return;
  uint32_t first = kept_.back().first_file();  // of the evaluation before the step; 0: none
  for (const auto& [id, t] : trajectories_) {
    first = first == 0 ? t.location.file : std::min(first, t.location.file);
  }
  kept_.back().set_first_file(first);
}

void JobCore::MakeTrajectory(v1::Purpose purpose, uint64_t draw, uint32_t sample,
                             uint64_t prompt_id) {
  TrajectoryInfo trajectory;
  trajectory.id = TrajectoryId(purpose, draw, sample, samples(purpose));
  trajectory.purpose = purpose;
  trajectory.draw = draw;
  trajectory.sample = sample;
  trajectory.prompt_id = prompt_id;
  trajectory.attempt = attempt_base_;
  trajectory.policy_version = policy_version_;
  trajectory.incarnation = incarnation_;
  RestoreTrajectory(trajectory);
  trajectory.tries.assign(static_cast<size_t>(graph_.size()), NodeTry{attempt_base_});
  TrajectoryInfo& kept = trajectories_[trajectory.id] = std::move(trajectory);
  EnqueueNext(kept);
}

// Whatever can be done next with it is queued, or it is READY.
void JobCore::EnqueueNext(TrajectoryInfo& trajectory) {
  switch (trajectory.state) {
    case TrajectoryState::kPending:
    case TrajectoryState::kGenerating:
      rollouts_.Enqueue(trajectory.id, trajectory.draw);
      break;
    case TrajectoryState::kReady:
      ++ready_;
      [[fallthrough]];  // its group may have waited for it
    case TrajectoryState::kScoring:
      for (uint32_t node = 0; node < trajectory.tries.size(); ++node) {
        std::vector<TrajectoryInfo*> those = {&trajectory};
        if (graph_.over_group(node)) those = MatesOf(trajectory);
        const bool possible = std::all_of(those.begin(), those.end(), [&](const auto* t) {
          return IsGenerated(*t) && (graph_.needs(node) & ~t->scored) == 0;
        });
        for (TrajectoryInfo* t : those) {
          const bool wanted = (graph_.Wanted(t->purpose) & ~t->scored) >> node & 1;
          if (possible && wanted && !t->tries[node].asked) EnqueueNode(*t, node);
        }
      }
      break;
  }
}

// The responses to the same prompt, in order; none while they are not all there.
std::vector<TrajectoryInfo*> JobCore::MatesOf(const TrajectoryInfo& trajectory) {
  const uint32_t n = samples(trajectory.purpose);
  const uint32_t size = trajectory.purpose == v1::PURPOSE_BASELINE ? 1 : n;
  std::vector<TrajectoryInfo*> group;
  for (uint32_t sample = 0; sample < size; ++sample) {
    const auto found =
        trajectories_.find(TrajectoryId(trajectory.purpose, trajectory.draw, sample, n));
    if (found == trajectories_.end()) return {};
    group.push_back(&found->second);
  }
  return group;
}

void JobCore::EnqueueNode(TrajectoryInfo& trajectory, uint32_t node, const std::string& avoid) {
  trajectory.tries[node].asked = true;
  ManagerOf(graph_.role(node)).Enqueue(WorkId(trajectory.id, node), trajectory.draw, avoid);
}

void JobCore::BeginStep() {
  KeepStep();
  SetPhase(Phase::kGenerate);
  step_since_ = generated_at_ = scored_at_ = now_;
  trajectories_.clear();
  ready_ = 0;
  drawn_ = StepDraws();
  drawn_.rounds = 1;
  next_draw_ = cursor_;
  MakeRound(GenBatchSize(spec()));
  StepTrajectories();
}

// The next prompts of the step, and what is to be done with them.
void JobCore::MakeRound(uint64_t groups) {
  draw_end_ = next_draw_ + groups;
  DrawMore();
}

// Trajectories are made as rollouts take those that wait, so that no turn makes a whole step of
// them. Those of a step that was under way are made at once: results and workers look for theirs.
void JobCore::DrawMore() {
  const bool at_once = !restored_rows_.empty() || !early_.empty() || !adoptable_.empty();
  const bool evaluates = phase_ == Phase::kEvaluate;
  const uint32_t n = samples(evaluates ? v1::PURPOSE_EVAL : v1::PURPOSE_TRAIN);
  for (; next_draw_ < draw_end_; ++next_draw_) {
    if (!at_once && rollouts_.queued() >= options_.drawn_ahead) return;
    const uint64_t draw = next_draw_;
    const uint64_t prompt = evaluates ? draw : prompts_.At(draw);
    if (is_rl()) {
      if (has_baseline() && !evaluates) MakeTrajectory(v1::PURPOSE_BASELINE, draw, 0, prompt);
      for (uint32_t sample = 0; sample < n; ++sample) {
        const bool leak = Mutated(Mutation::kEvaluationInBatch) && sample + 1 == n && n > 1;
        MakeTrajectory(evaluates || leak ? v1::PURPOSE_EVAL : v1::PURPOSE_TRAIN, draw, sample,
                       prompt);
      }
    } else {  // an example is a trajectory born READY
      TrajectoryInfo example;
      example.id = TrajectoryId(v1::PURPOSE_TRAIN, draw, 0, 1);
      example.draw = draw;
      example.prompt_id = prompt;
      example.state = TrajectoryState::kReady;
      trajectories_[example.id] = example;
      ++ready_;
    }
  }
}

bool JobCore::has_baseline() const {
  const auto& generate = dataflow().generate();
  return std::any_of(generate.begin(), generate.end(),
                     [](const v1::GenerateNode& node) { return node.purpose() == "baseline"; });
}

void JobCore::BeginEvaluation() {
  KeepStep();
  SetPhase(Phase::kEvaluate);
  step_since_ = generated_at_ = scored_at_ = now_;
  trajectories_.clear();
  ready_ = 0;
  next_draw_ = 0;
  draw_end_ = ValSize();
  DrawMore();
  StepTrajectories();
}

// Trajectories of the phase stand: those that workers still run or finished meanwhile find
// their place, then work is given out.
void JobCore::StepTrajectories() {
  begun_ = true;
  AdoptRunning();
  ReplayEarly(/*commands=*/false);
  if (phase_ != Phase::kGenerate && phase_ != Phase::kEvaluate) return;
  LoadWeights();
  Dispatch();
  MaybePhaseDone();
}

void JobCore::Dispatch() {
  if (TakeTurns()) LoadWeights();
  if (!roster_.shared().empty()) SendCommands();
  while (auto assignment = rollouts_.Next(now_)) StartGenerate(*assignment);
  if (next_draw_ < draw_end_) {
    DrawMore();
    while (auto assignment = rollouts_.Next(now_)) StartGenerate(*assignment);
  }
  for (auto& [role, scorer] : scorers_) {
    while (auto assignment = scorer.manager.Next(now_)) StartScore(role, *assignment);
  }
}

void JobCore::StartGenerate(const RolloutManager::Assignment& assignment) {
  TrajectoryInfo& trajectory = trajectories_.at(assignment.trajectory);
  trajectory.state = TrajectoryState::kGenerating;
  // A response is of one version: tokens of other weights are not gone on with.
  if (!WhyStale(trajectory).empty()) trajectory.tokens = 0;
  trajectory.policy_version = policy_version_;
  trajectory.incarnation = incarnation_;
  StartTask task;
  task.worker = assignment.worker;
  task.ref = Ref(TaskKind::kGenerate, trajectory.id, trajectory.attempt);
  task.args.role = "rollout";
  task.args.policy_version = policy_version_;
  task.args.trajectory = trajectory;
  Do(std::move(task));
}

void JobCore::StartScore(const std::string& role, const RolloutManager::Assignment& assignment) {
  TrajectoryInfo& trajectory = trajectories_.at(TrajectoryOf(assignment.trajectory));
  StartTask task;
  task.worker = assignment.worker;
  task.ref = RefOfWork(role, assignment.trajectory);
  const v1::ScoreNode& node = dataflow().score(static_cast<int>(task.ref.part));
  task.args.role = node.role();
  task.args.method = node.method();
  task.args.deadline = options_.score_deadline;
  task.args.trajectory = trajectory;
  if (graph_.over_group(task.ref.part)) {
    for (const TrajectoryInfo* mate : MatesOf(trajectory)) {
      if ((graph_.needs(task.ref.part) & mate->failed) == 0) task.args.group.push_back(*mate);
    }
  }
  Do(std::move(task));
}

void JobCore::RetryGenerate(TrajectoryInfo& trajectory, const absl::Status& status,
                            const std::string& failed_on) {
  trajectory.attempt = NextAttempt(trajectory.attempt);
  // A rollout that holds another version loads the right one; that has a limit of its own.
  const bool loads = absl::IsFailedPrecondition(status);
  if (!absl::IsCancelled(status) && !loads) ++trajectory.failures;
  trajectory.state = TrajectoryState::kPending;
  rollouts_.Enqueue(trajectory.id, trajectory.draw, failed_on);
}

void JobCore::RetryScore(TrajectoryInfo& trajectory, uint32_t node, const absl::Status& status,
                         const std::string& failed_on) {
  NodeTry& tried = trajectory.tries[node];
  tried.attempt = NextAttempt(tried.attempt);
  if (!absl::IsCancelled(status)) ++tried.failures;
  EnqueueNode(trajectory, node, failed_on);
}

void JobCore::OnGenerated(const TaskDone& event) {
  TrajectoryInfo& trajectory = trajectories_.at(event.ref.subject);
  const absl::Duration took = now_ - rollouts_.running().at(trajectory.id).started;
  // What was begun elsewhere, or under another controller, tells nothing of a worker's pace.
  if (event.status.ok() && event.output.tokens > 0 && event.ref.attempt == attempt_base_) {
    rollout_pace_.Add(event.worker, absl::ToDoubleSeconds(took) / event.output.tokens);
  }
  rollouts_.Finish(trajectory.id);
  rollouts_.Heard(event.worker, now_);
  // A failure that an earlier controller may have seen, and acted on, is not counted again.
  if (!event.status.ok() && event.ref.attempt < attempt_base_) {
    RetryGenerate(trajectory, absl::CancelledError("it is asked again"), event.worker);
    return Advance();
  }
  if (GenerationTp(spec()) > 1 && LosesRank(event.status)) {  // of a replica, which are the actor's
    RetryGenerate(trajectory, absl::CancelledError("a rank is lost"), event.worker);
    return BreakGroup(actor_group(), event);
  }
  if (!event.status.ok()) {
    if (IsPermanent(event.status) || trajectory.failures + 1 >= options_.max_attempts) {
      return Fail(
          absl::Status(event.status.code(),
                       absl::StrCat("generating ", TrajectoryName(trajectory.id), " (prompt ",
                                    trajectory.prompt_id, ") failed: ", event.status.message())));
    }
    if (absl::IsFailedPrecondition(event.status)) {
      Slot& slot = *roster_.Find(event.worker, "rollout");  // it holds another version after all
      slot.version = 0;
      rollouts_.SetEnabled(event.worker, false);
      // The ranks gather it anew: of all that one gathering fails, the first counts.
      if (roster_.hybrid() && std::exchange(published_, false) &&
          ++slot.failures >= options_.max_attempts) {
        return Fail(absl::Status(
            event.status.code(),
            absl::StrCat("worker ", event.worker, " cannot generate with weights that it holds, ",
                         slot.failures, " times now: ", event.status.message())));
      }
    }
    RetryGenerate(trajectory, event.status, event.worker);
    return Advance();
  }
  if (roster_.hybrid()) roster_.Find(event.worker, "rollout")->failures = 0;
  trajectory.tokens = event.output.tokens;
  trajectory.prompt_tokens = event.output.prompt_tokens;
  trajectory.finish_reason = event.output.finish_reason;
  trajectory.location = event.output.location;
  trajectory.failures = 0;
  trajectory.scored = 0;
  trajectory.serial = next_serial_++;
  trajectory.state =
      graph_.Wanted(trajectory.purpose) != 0 ? TrajectoryState::kScoring : TrajectoryState::kReady;
  generated_at_ = now_;
  Do(PutTrajectory{trajectory.serial, StepOf(trajectory.purpose), incarnation_, trajectory});
  EnqueueNext(trajectory);
  if (rollouts_.load(event.worker) == 0) LoadWeights();
  Dispatch();
  MaybePhaseDone();
}

// `late`: nobody answered; it is given up.
void JobCore::OnScored(const TaskDone& event, bool late) {
  TrajectoryInfo& trajectory = trajectories_.at(event.ref.subject);
  const uint32_t part = event.ref.part;
  const v1::ScoreNode& node = dataflow().score(static_cast<int>(part));
  Scorer& scorer = scorers_.at(node.role());
  const uint64_t work = WorkId(trajectory.id, part);
  const absl::Duration took = now_ - scorer.manager.running().at(work).started;
  if (event.status.ok() && event.ref.attempt == attempt_base_) {
    scorer.pace.Add(event.worker, absl::ToDoubleSeconds(took));
  }
  scorer.manager.Finish(work);
  scorer.manager.Heard(event.worker, now_);
  if (!event.status.ok() && event.ref.attempt < attempt_base_) {  // as in OnGenerated
    RetryScore(trajectory, part, absl::CancelledError("it is asked again"), event.worker);
    return Dispatch();
  }
  Group* const group = GroupOf(node.role());
  if (group != nullptr && group->tp > 1 && !late && LosesRank(event.status)) {
    RetryScore(trajectory, part, absl::CancelledError("a rank is lost"), event.worker);
    BreakGroup(*group, event);
    return Dispatch();
  }
  absl::Status status = event.status;
  std::string error = event.output.error;
  bool infra_failed = event.output.infra_failed && !error.empty();
  Metrics metrics = event.output.metrics;
  if (const auto reward = metrics.find("reward");
      reward != metrics.end() && node.out() != "reward") {
    metrics.emplace(node.out(), reward->second);  // what every method may call its number
    metrics.erase(reward);
  }
  dropped_names_ += DropSurplusScores(node.out(), &metrics);
  const bool made = metrics.count(node.out()) > 0 || event.output.location.size > 0;
  if (status.ok() && error.empty() && !made) {
    status = absl::InternalError(
        absl::StrCat("method ", node.method(), " returned no '", node.out(), "'"));
  }
  if (absl::IsAborted(status)) {  // the reward itself is broken, whatever it is asked
    return Fail(absl::Status(status.code(), absl::StrCat(node.method(), " failed on worker ",
                                                         event.worker, ": ", status.message())));
  }
  if (!status.ok()) {
    if (!IsPermanent(status) && trajectory.tries[part].failures + 1 < options_.max_attempts) {
      RetryScore(trajectory, part, status, event.worker);
      return Dispatch();
    }
    error = std::string(status.message());
    infra_failed = true;
  }
  // Of a method that failed on a part of a group, nobody knows what it says of the whole.
  const bool lacks_mates =
      graph_.over_group(part) && LacksInputs(MatesOf(trajectory), graph_.needs(part));
  if (!error.empty() && !graph_.IsReward(part) && !lacks_mates) {  // nothing could stand in for it
    return Fail(
        absl::Status(status.ok() ? absl::StatusCode::kInternal : status.code(),
                     absl::StrCat("node ", node.node(), " (", node.role(), ".", node.method(),
                                  ") failed on ", TrajectoryName(trajectory.id), ": ", error)));
  }
  for (const auto& [name, value] : metrics) trajectory.scores[name] = value;
  if (event.output.location.size > 0) trajectory.columns[part] = event.output.location;
  if (!error.empty()) trajectory.error = error;
  if (!error.empty() && ((infra_failed && !spec().reward().has_error_reward()) || lacks_mates)) {
    trajectory.scores.erase(node.out());
    trajectory.failed |= graph_.WithDependents(part);
    trajectory.scored |= trajectory.failed;
  } else if (!error.empty()) {
    trajectory.scores[node.out()] = spec().reward().error_reward();
  }
  Scored(trajectory, part);
  scored_at_ = now_;
  Do(PutTrajectory{trajectory.serial, StepOf(trajectory.purpose), incarnation_, trajectory});
  EnqueueNext(trajectory);
  Dispatch();
  MaybePhaseDone();
}

void JobCore::Scored(TrajectoryInfo& trajectory, uint32_t node) {
  // Its attempts go on where they are, should it be asked again.
  trajectory.tries[node] = NodeTry{trajectory.tries[node].attempt};
  trajectory.scored |= uint64_t{1} << node;
  if ((graph_.Wanted(trajectory.purpose) & ~trajectory.scored) != 0) return;
  trajectory.state = TrajectoryState::kReady;
  if (trajectory.failed == 0) trajectory.scores["reward"] = graph_.Reward(trajectory.scores);
}

// Forgets the phase's trajectories; what still runs is stopped for `reason`.
void JobCore::ClearWork(const std::string& reason) {
  for (const auto& [id, running] : rollouts_.Clear()) {
    Do(StopTask{running.worker, RefOfWork("rollout", id), reason});
  }
  for (auto& [role, scorer] : scorers_) {
    for (const auto& [work, running] : scorer.manager.Clear()) {
      Do(StopTask{running.worker, RefOfWork(role, work), reason});
    }
    scorer.pace.DropPhase();
  }
  DropPayloads drop;
  for (const auto& [id, trajectory] : trajectories_) drop.trajectories.push_back(id);
  if (!drop.trajectories.empty()) Do(std::move(drop));
  trajectories_.clear();
  draw_end_ = next_draw_;
  ready_ = 0;
  begun_ = true;  // what was early or adoptable belonged to the work that ends here
  for (const TaskDone& early : early_) Do(AckResult{early.worker, early.ref});
  early_.clear();
  adoptable_.clear();
  restored_rows_.clear();
  rollout_pace_.DropPhase();
  batch_built_ = false;
  batch_algorithm_.clear();
}

}  // namespace baton::controller
