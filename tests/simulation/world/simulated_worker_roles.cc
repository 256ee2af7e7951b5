// SimulatedWorker: what roles do (tests/fake_worker; with the relay, workers/trainer and rollout).
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/spec/dataflow/roles.h"
#include "sdk/common/rpc/error.h"
#include "tests/simulation/parts/wire.h"
#include "tests/simulation/rules/async_rules.h"
#include "tests/simulation/world/simulated_controller.h"
#include "tests/simulation/world/simulated_worker.h"

namespace baton::simulation {

using controller::TaskKind;

namespace {

absl::Status RoleNotHeld() {
  return MakeError(absl::StatusCode::kFailedPrecondition, "ROLE_NOT_HELD", "it holds no such role");
}

// The trajectories of a stream of the batch, read while its controller lives.
absl::StatusOr<std::vector<v1::Trajectory>> AllOf(
    const absl::StatusOr<controller::BatchPart>& part) {
  if (!part.ok()) return part.status();
  std::vector<v1::Trajectory> all;
  for (size_t i = 0; i < part->size(); ++i) {
    absl::StatusOr<v1::Trajectory> one = part->At(i);
    if (!one.ok()) return one.status();
    all.push_back(*std::move(one));
  }
  return all;
}

Result Failed(absl::Status status) {
  Result result;
  result.status = std::move(status);
  return result;
}

}  // namespace

// RoleRunner: what changes a role, and group commands, run one after the other.
void SimulatedWorker::Launch(uint64_t context) {
  const TaskMessage& task = contexts_.at(context).task;
  const bool exclusive = task.kind == TaskKind::kAssignRole ||
                         task.kind == TaskKind::kReleaseRole || IsGroupCommand(task.kind);
  if (!exclusive) return Start(context);
  std::deque<uint64_t>& queue = exclusive_[task.role];
  queue.push_back(context);
  if (queue.size() == 1) Start(context);
}

void SimulatedWorker::Start(uint64_t context) {
  Running& starting = contexts_.at(context);
  starting.started = true;
  const TaskMessage& task = starting.task;
  const TaskKind kind = task.kind;
  if (world_.controller() != nullptr) world_.controller()->rules().CheckTurns(task.job);
  // Once for each thing: as often as a job bears.
  const auto token = controller::DecodeToken(task.token);
  if (failing_until_ > world_.now() && !IsGroupCommand(kind) && kind != TaskKind::kReleaseRole &&
      failed_.insert(task.job + SubjectOf(token->ref, "")).second) {
    return Later(context, Work(1, 50), [this, context](Running&) {
      Finish(context, Failed(absl::UnavailableError("hiccup")));
    });
  }
  if (failing_until_ > world_.now() &&
      (kind == TaskKind::kPublish || kind == TaskKind::kSaveCheckpoint)) {
    return Later(context, Work(1, 50), [this, context](Running&) {
      Finish(context, Failed(absl::ResourceExhaustedError("the disk is full")));
    });
  }
  switch (kind) {
    case TaskKind::kAssignRole:
      return Later(context, Work(20, 300), [this, context](Running&) { Assign(context); });
    case TaskKind::kReleaseRole:
      return Later(context, Work(1, 10), [this, context](Running&) { Release(context); });
    case TaskKind::kLoadWeights:
      StopAhead();
      return Later(context, Work(1, 5), [this, context](Running&) {
        LoadWeights(context, world_.now() + absl::Seconds(2));
      });
    case TaskKind::kGenerate:
      StopAhead();
      return Later(context, Work(1, 30), [this, context](Running&) { Generate(context); });
    case TaskKind::kRunAhead:
      return Later(context, Work(1, 30), [this, context](Running&) { RunAhead(context); });
    case TaskKind::kScore:
      return Later(context, WorkOf(task.job, 10, 95),
                   [this, context](Running&) { Score(context); });
    case TaskKind::kUpdate:
      return Later(context, Work(10, 50), [this, context](Running&) { Update(context); });
    case TaskKind::kPublish:
      return Later(context, Work(10, 100), [this, context](Running&) {
        Publish(context, world_.now() + absl::Seconds(10));
      });
    case TaskKind::kSaveCheckpoint:
      return Later(context, Work(10, 100), [this, context](Running&) { Save(context); });
    case TaskKind::kToGeneration:
      return Later(context, Work(5, 50), [this, context](Running&) { ToGeneration(context); });
    case TaskKind::kExport:
      return;
  }
}

// FakeWorker::TakingBack: the weights that a rollout of this worker samples with are about to
// change.
void SimulatedWorker::TakeBack(const std::string& job) {
  const auto actor = held_.find("actor");
  if (actor == held_.end() || actor->second.job != job || !actor->second.hybrid) return;
  actor->second.sampling.reset();
  CancelGenerations(job, "taken back");
}

// Dispatcher::DropRole; on_release of rollouts.
void SimulatedWorker::LetGo(const std::string& job, const std::string& role) {
  held_.erase(role);
  groups_.erase({job, role});
  if (role == controller::roles::kRollout) CancelGenerations(job, "the role is released");
}

void SimulatedWorker::CancelGenerations(const std::string& job, const std::string& why) {
  std::vector<uint64_t> generating;
  for (const auto& [context, running] : contexts_) {
    const bool generates =
        running.task.kind == TaskKind::kGenerate || running.task.kind == TaskKind::kRunAhead;
    if (running.task.job == job && generates) generating.push_back(context);
  }
  for (uint64_t context : generating) Finish(context, Failed(absl::CancelledError(why)));
}

void SimulatedWorker::StopAhead() {
  std::vector<uint64_t> ahead;
  for (const auto& [context, running] : contexts_) {
    if (running.task.kind == TaskKind::kRunAhead) ahead.push_back(context);
  }
  for (const uint64_t context : ahead) {
    Result result;
    result.stopped = true;
    result.payload.tokens = contexts_.at(context).done;
    world_.coverage().Happened("responses ahead that were stopped");
    Finish(context, result);
  }
}

// With a worker among them that does not know the method.
void SimulatedWorker::RunAhead(uint64_t context) {
  if (index_ % 5 == 4) return Finish(context, Failed(absl::UnimplementedError("no such method")));
  const bool busy = std::any_of(contexts_.begin(), contexts_.end(), [](const auto& running) {
    return running.second.task.kind == TaskKind::kGenerate && running.second.started;
  });
  if (busy) return StopAhead();
  if (!Sample(context)) return;
  // The content is wrong on purpose: if it reached a row or a batch, a rule would notice.
  contexts_.at(context).task.trajectory.content ^= 1;
  NextAheadToken(context, 0);
}

void SimulatedWorker::NextAheadToken(uint64_t context, uint32_t done) {
  Running& running = contexts_.at(context);
  running.done = done;
  if (done >= running.task.trajectory.tokens) {
    Result result;
    result.payload = running.task.trajectory;
    world_.coverage().Happened("responses that were run ahead");
    return Finish(context, result);
  }
  Later(context, WorkOf(running.task.job, 5, 40),
        [this, done](Running& r) { NextAheadToken(r.context, done + 1); });
}

// Dispatcher::RunAssign, FakeActor::Assign.
void SimulatedWorker::Assign(uint64_t context) {
  const TaskMessage task = contexts_.at(context).task;
  Held held;
  held.job = task.job;
  held.group_epoch = task.group_epoch;
  held.rank = task.rank;
  held.spec = task.spec;
  held.hybrid = task.hybrid;
  if (task.role == "actor") TakeBack(task.job);
  const auto previous = held_.find(task.role);
  if (previous != held_.end() && previous->second.job != task.job) {
    groups_.erase({previous->second.job, task.role});
  }
  held_.erase(task.role);
  if (controller::MayTrain(task.role)) {
    held.state.weights = InitialWeights(task.spec, task.role);
    if (task.checkpoint >= 0) {
      const auto& complete = world_.disk().jobs[task.job].complete;
      const auto folder = complete.find(task.checkpoint);
      if (folder == complete.end()) {
        return Finish(context, Failed(absl::NotFoundError("no such checkpoint")));
      }
      world_.Check("TrainingGoesOnWithTheOptimizer",
                   TrainingGoesOnWithTheOptimizer(task.checkpoint, folder->second));
      held.state = folder->second.trained.at(task.role);
    }
    held.state.version = task.policy_version;
    if (task.role == "actor") held.state.branch = task.group_epoch;
  }
  held_[task.role] = std::move(held);
  Finish(context, Result());
}

void SimulatedWorker::Release(uint64_t context) {
  const TaskMessage task = contexts_.at(context).task;
  if (const Held* held = HeldFor(task)) {
    for (const std::string& id : held->published_segments) world_.RelayOf(index_).Drop(id);
    LetGo(task.job, task.role);
  }
  Finish(context, Result());
}

void SimulatedWorker::LoadWeights(uint64_t context, absl::Time give_up) {
  const TaskMessage task = contexts_.at(context).task;
  Held* held = HeldFor(task);
  if (held == nullptr) return Finish(context, Failed(RoleNotHeld()));
  SimulatedRelay& relay = world_.RelayOf(index_);
  auto loading = relay.Acquire(task.job, task.policy_version, id_);
  if (loading.ok()) {
    const uint64_t life = world_.time().life(relay.process());
    return Later(context, Work(5, 60),
                 [this, context, life, loading](Running&) { Read(context, life, *loading); });
  }
  if (world_.now() >= give_up) {
    return Finish(context, Failed(absl::NotFoundError("the relay has no such version")));
  }
  Later(context, absl::Milliseconds(100),
        [this, context, give_up](Running&) { LoadWeights(context, give_up); });
}

// Reads the segment while it is mapped; then gives the lease back, unless another relay stands
// there now.
void SimulatedWorker::Read(uint64_t context, uint64_t relay_life, SimulatedRelay::Loading loading) {
  const TaskMessage task = contexts_.at(context).task;
  Held* held = HeldFor(task);
  if (held != nullptr) {
    world_.Check("LoadedAsPublished",
                 LoadedAsPublished(world_.history().jobs[task.job], task.policy_version,
                                   loading.memory->weights));
    held->state.weights = loading.memory->weights;
    held->state.branch = loading.memory->branch;
    held->state.version = task.policy_version;
  }
  const absl::Duration keeps =  // some readers keep the file mapped for a while
      world_.random().Percent(20) ? world_.random().Milliseconds(0, 4000) : absl::ZeroDuration();
  world_.time().After(keeps, process_, [this, relay_life, loading] {
    SimulatedRelay& held_by = world_.RelayOf(index_);
    if (world_.time().life(held_by.process()) == relay_life) held_by.Release(loading.lease_id);
  });
  Finish(context, held == nullptr ? Failed(RoleNotHeld()) : Result());
}

// The weights that a rollout samples with: its own, or those that its worker's actor handed over;
// null: none.
ActorState* SimulatedWorker::SamplingOf(const TaskMessage& task) {
  Held* held = HeldFor(task);
  if (held == nullptr || !held->hybrid) return held == nullptr ? nullptr : &held->state;
  const auto actor = held_.find("actor");
  const bool has = actor != held_.end() && actor->second.job == task.job;
  return has && actor->second.sampling.has_value() ? &*actor->second.sampling : nullptr;
}

// The response, as the weights that the task names make it. False: the task has failed.
bool SimulatedWorker::Sample(uint64_t context) {
  Running& running = contexts_.at(context);
  const TaskMessage& task = running.task;
  if (HeldFor(task) == nullptr) {
    Finish(context, Failed(RoleNotHeld()));
    return false;
  }
  const ActorState* with = SamplingOf(task);
  if (with == nullptr || with->version != task.policy_version) {
    Finish(context, Failed(absl::FailedPreconditionError("another version is held")));
    return false;
  }
  world_.Check("LoadedAsPublished",
               LoadedAsPublished(world_.history().jobs[task.job], with->version, with->weights));
  Payload response = Respond(with->weights, task.trajectory.purpose, task.prompt,
                             task.trajectory.prompt_index, task.sample);
  response.id = task.trajectory.id;
  response.version = with->version;
  response.branch = with->branch;
  world_.Check("OneVersionPerResponse", OneVersionPerResponse(task, response));
  running.content = response.content;
  running.task.trajectory = response;
  return true;
}

void SimulatedWorker::Generate(uint64_t context) {
  if (!Sample(context)) return;
  Running& running = contexts_.at(context);
  const TaskMessage& task = running.task;
  const Payload& response = task.trajectory;
  const auto resumed = static_cast<uint32_t>(task.resume.size());
  uint32_t known = resumed;
  for (const int32_t token : task.draft) {
    if (known >= response.tokens || TokenAt(response.content, known) != token) break;
    ++known;
  }
  if (!task.draft.empty()) {
    running.accepted = known - resumed;
    world_.coverage().Happened("drafts", 1);
    world_.coverage().Happened("draft tokens accepted", running.accepted);
  }
  if (resumed > 0) running.chunks.push_back({0, resumed});
  if (known > resumed) {
    running.chunks.push_back({resumed, known - resumed});
    if (attached_) SendProgress(running, resumed, known - resumed);
  }
  NextToken(context, known);
}

void SimulatedWorker::NextToken(uint64_t context, uint32_t done) {
  Running& running = contexts_.at(context);
  running.done = done;
  if (done >= running.task.trajectory.tokens) {
    const Held* held = HeldFor(running.task);
    const auto actor = held_.find("actor");
    if (held != nullptr && held->hybrid && actor != held_.end()) {
      world_.Check("SampledByTheTrainedWeights",
                   SampledByTheTrainedWeights(actor->second.state, running.task.trajectory));
    }
    Result result;
    result.payload = running.task.trajectory;
    result.accepted = running.accepted;
    return Finish(context, result);
  }
  Later(context, WorkOf(running.task.job, 5, 40), [this, done](Running& r) {
    r.chunks.push_back({done, 1});
    if (attached_) SendProgress(r, done, 1);
    NextToken(r.context, done + 1);
  });
}

// Ranks that hold a model together compute together; their links are never cut.
bool SimulatedWorker::MissesARank(const TaskMessage& task, const Held& held) const {
  const auto& workers = world_.workers();
  const auto there = std::count_if(workers.begin(), workers.end(), [&](const auto& worker) {
    return worker->HoldsRank(task.job, task.role, held.group_epoch);
  });
  return there < controller::RanksOf(held.spec, task.role);
}

void SimulatedWorker::Score(uint64_t context) {
  Running& running = contexts_.at(context);
  const Held* held = HeldFor(running.task);
  if (held == nullptr) {
    return Finish(context, Failed(RoleNotHeld()));
  }
  if (running.task.role == "actor" && world_.controller() != nullptr &&
      world_.controller()->rules().Wants(running.task.job, id_, running.task.token)) {
    // Log-probs are recomputed with the weights that sampled the response; in an async job, with
    // those that train on it.
    const uint64_t version = running.task.trajectory.version;
    const bool async = IsAsync(held->spec);
    if (async) {
      JobHistory& history = world_.history().jobs[running.task.job];
      history.rescored[running.task.trajectory.id] = held->state.weights;
    }
    world_.Check("StalenessIsBounded",
                 async || version == held->state.version
                     ? ""
                     : absl::StrCat("version ", held->state.version,
                                    " scores a response that version ", version, " sampled"));
  }
  if (const int tp = controller::ShapeOf(held->spec, running.task.role).tp; tp > 1) {
    if (world_.controller() != nullptr &&
        world_.controller()->rules().Wants(running.task.job, id_, running.task.token)) {
      world_.Check("TheFirstOfACopyScores", TheFirstOfACopyScores(held->rank, tp));
    }
    if (MissesARank(running.task, *held)) {
      return Finish(context, Failed(absl::UnavailableError("a rank is gone")));
    }
  }
  Result result;
  result.reward = running.task.trajectory.reward;
  const bool rewards = running.task.role == "reward";
  if (rewards && RewardFails(held->spec, running.task.trajectory)) result.error = kNoReward;
  Finish(context, result);
}

// FakeActor::Update.
void SimulatedWorker::Update(uint64_t context) {
  const TaskMessage task = contexts_.at(context).task;
  Held* held = HeldFor(task);
  if (held == nullptr) return Finish(context, Failed(RoleNotHeld()));
  if (task.role == "actor") TakeBack(task.job);
  const ActorState& state = held->state;
  if (state.step == task.step && held->updated) return Finish(context, Result());
  const bool follows = task.step - 1 > state.step && task.policy_version == state.version + 1;
  if (task.step - 1 != state.step && !follows) {
    return Finish(context, Failed(absl::FailedPreconditionError(absl::StrCat(
                               "WRONG_STEP: asked for ", task.step, " at ", state.step))));
  }
  Fetch(context);
}

// ExperienceClient: asks until it is answered.
void SimulatedWorker::Fetch(uint64_t context) {
  const TaskMessage task = contexts_.at(context).task;
  if (task.batch.empty()) return;  // it is here already
  v1::FetchBatchRequest request;
  request.set_job(task.job);
  request.set_batch_id(task.batch);
  request.set_capability(task.capability);
  world_.Call(index_, [this, context, request](SimulatedController& controller) {
    controller.FetchBatch(request, [world = &world_, index = index_,
                                    context](const absl::StatusOr<controller::BatchPart>& part) {
      world->Answer(index, [context, batch = AllOf(part)](SimulatedWorker& worker) {
        const Running* running = worker.Find(context);
        if (running == nullptr || running->task.batch.empty()) return;
        if (batch.ok()) return worker.Apply(context, worker.ReadBatch(*batch));
        if (!absl::IsUnavailable(batch.status())) {
          worker.Finish(context, Failed(batch.status()));
        }
      });
    });
  });
  Later(context, absl::Milliseconds(500), [this, context](Running&) { Fetch(context); });
}

// With the rewards that the controller gave them.
std::vector<Payload> SimulatedWorker::ReadBatch(const std::vector<v1::Trajectory>& batch) {
  std::vector<Payload> out;
  for (const v1::Trajectory& trajectory : batch) {
    const auto payload = ReadPayload(trajectory);
    world_.Check("BatchesCanBeRead",
                 payload.has_value() ? "" : trajectory.trajectory_id() + " is in pieces");
    if (!payload.has_value()) continue;
    out.push_back(*payload);
    const auto reward = trajectory.scores().find("reward");
    out.back().reward = reward == trajectory.scores().end() ? 0 : reward->second;
  }
  return out;
}

void SimulatedWorker::Apply(uint64_t context, const std::vector<Payload>& batch) {
  const TaskMessage task = contexts_.at(context).task;
  contexts_.at(context).task.batch.clear();
  Held* held = HeldFor(task);
  if (held == nullptr) return;
  if (task.batch_size != batch.size()) {
    return Finish(context, Failed(absl::DataLossError("the batch has another size")));
  }
  ActorState& state = held->state;
  JobHistory& history = world_.history().jobs[task.job];
  if (task.role == "actor") {
    world_.Check("StalenessIsBounded", StalenessIsBounded(held->spec, history, state, batch));
    world_.Check("RescoredByTheTrainedWeights",
                 RescoredByTheTrainedWeights(held->spec, history, state, batch));
  }
  world_.Check("ConsumedOncePerBranch",
               ConsumedOncePerBranch(history, state.weights, task.step, batch));
  Consumption consumption{state.weights, task.step, {}, state.branch};
  for (const Payload& p : batch) consumption.ids.push_back(p.id);
  state.weights = Train(state.weights, batch);
  ++state.updates;
  state.step = task.step;
  state.version = task.policy_version;
  held->updated = true;
  // After a rollback the same groups may make the same weights as another step.
  Consumption& made = history.made_by[state.weights];
  if (made.branch <= consumption.branch) made = std::move(consumption);
  Later(context, Work(50, 400), [this, context](Running&) { Finish(context, Result()); });
}

void SimulatedWorker::ToGeneration(uint64_t context) {
  const TaskMessage task = contexts_.at(context).task;
  Held* held = HeldFor(task);
  if (held == nullptr) return Finish(context, Failed(RoleNotHeld()));
  if (held->state.version != task.policy_version) {
    return Finish(context, Failed(absl::FailedPreconditionError("WRONG_VERSION")));
  }
  JobHistory& history = world_.history().jobs[task.job];
  world_.Check("OneVersionIsOneThing",
               OneVersionIsOneThing(history, task.policy_version, held->state.weights));
  history.published[task.policy_version] = held->state.weights;
  history.updates_of[task.policy_version] = held->state.updates;
  held->sampling = held->state;
  Finish(context, Result());
}

void SimulatedWorker::Publish(uint64_t context, absl::Time give_up) {
  const TaskMessage task = contexts_.at(context).task;
  Held* held = HeldFor(task);
  if (held == nullptr) return Finish(context, Failed(RoleNotHeld()));
  if (held->state.version != task.policy_version) {
    return Finish(context, Failed(absl::FailedPreconditionError("WRONG_VERSION")));
  }
  if (held->rank > 0) return Finish(context, Result());
  const bool again = held->publishing == task.policy_version;
  held->publishing = task.policy_version;
  SimulatedRelay& relay = world_.RelayOf(index_);
  auto writing =
      relay.Begin(task.job, task.policy_version, /*fork=*/!held->published, task.keep_versions);
  if (absl::IsAlreadyExists(writing.status()) && again) {
    relay.HandOn(task.job, task.policy_version);
    return Finish(context, Result());
  }
  if (!writing.ok()) return Again(context, give_up, writing.status());
  Later(context, Work(2, 20), [this, context, give_up, writing](Running& running) {
    const Held* mine = HeldFor(running.task);
    if (mine == nullptr) {
      return Finish(context, Failed(RoleNotHeld()));
    }
    *writing->memory = {mine->state.weights, mine->state.branch};
    Seal(context, writing->segment_id, give_up);
  });
}

void SimulatedWorker::Seal(uint64_t context, const std::string& segment, absl::Time give_up) {
  const TaskMessage task = contexts_.at(context).task;
  Held* held = HeldFor(task);
  const absl::Status sealed = world_.RelayOf(index_).Seal(task.job, task.policy_version, segment);
  if (!sealed.ok()) return Again(context, give_up, sealed);
  JobHistory& history = world_.history().jobs[task.job];
  world_.Check("OneVersionIsOneThing",
               OneVersionIsOneThing(history, task.policy_version, held->state.weights));
  history.published[task.policy_version] = held->state.weights;
  history.updates_of[task.policy_version] = held->state.updates;
  held->published = true;
  held->published_segments.push_back(segment);
  Finish(context, Result());
}

// A relay that does not answer, or has forgotten the segment, is tried again.
void SimulatedWorker::Again(uint64_t context, absl::Time give_up, const absl::Status& status) {
  const bool passing = absl::IsUnavailable(status) || absl::IsNotFound(status);
  if (!passing || world_.now() >= give_up) return Finish(context, Failed(status));
  Later(context, absl::Milliseconds(200),
        [this, context, give_up](Running&) { Publish(context, give_up); });
}

void SimulatedWorker::Save(uint64_t context) {
  const TaskMessage task = contexts_.at(context).task;
  Held* held = HeldFor(task);
  if (held == nullptr) return Finish(context, Failed(RoleNotHeld()));
  const bool later = task.step > held->state.step && task.policy_version == held->state.version;
  if (task.step != held->state.step && !later) {
    return Finish(context, Failed(absl::FailedPreconditionError("WRONG_STEP")));
  }
  if (held->rank > 0) return Finish(context, Result());
  auto& temporary = world_.disk().jobs[task.job].temporary;
  const auto folder = temporary.find(task.directory);
  if (folder == temporary.end()) {
    return Finish(context, Failed(absl::NotFoundError("the folder was not prepared")));
  }
  folder->second.trained[task.role] = held->state;
  Result result;
  result.file = task.role;
  Finish(context, result);
}

}  // namespace baton::simulation
