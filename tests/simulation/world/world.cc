#include "tests/simulation/world/world.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "controller/cluster/cluster_core.h"
#include "controller/runtime/rows/stored_job.h"
#include "controller/runtime/rows/tables.h"
#include "tests/simulation/world/commit_rules.h"
#include "tests/simulation/world/simulated_client.h"
#include "tests/simulation/world/simulated_controller.h"
#include "tests/simulation/world/simulated_relay.h"
#include "tests/simulation/world/simulated_worker.h"

namespace baton::simulation {
namespace {

constexpr absl::Duration kLimit = absl::Minutes(20);               // of virtual time
constexpr absl::Duration kAboutALease = absl::Milliseconds(6500);  // faults.cc
constexpr absl::Duration kHeardLate = absl::Milliseconds(400);     // by a slow network

struct WorkerPlan {
  const char* id;
  std::vector<std::string> roles;
  bool foreign = false;  ///< A user's own: it offers one method of a role, which no job asks for.
  const char* project = "*";  ///< Project of its token.
};
constexpr char kRelayRole[] = "relay";
std::vector<std::string> Everything() {
  return {"actor", "rollout", "reward", "reference", "critic"};
}
std::vector<WorkerPlan> OwnWorkers() {
  return {{"actor-0", {"actor"}},
          {"actor-1", {"actor"}},
          {"rollout-0", {"rollout"}},
          {"rollout-1", {"rollout"}},
          {"rollout-2", {"rollout"}},
          {"reward-0", {"reward", "reference"}},
          {"reward-1", {"reward", "reference"}},
          {"any-0", {"actor", "rollout", "reward"}},
          {"all-0", Everything()},
          {"all-1", Everything()},
          {"all-2", Everything()},
          {"all-3", Everything()},
          {"all-4", Everything()},
          {"all-5", Everything()}};
}
// A quarter of the worlds has a worker of a user's own. With two projects each has workers of its
// own, and some work for both: three workers have one id.
std::vector<WorkerPlan> WorkersOfTheWorld(const Scenario& scenario) {
  std::vector<WorkerPlan> workers = OwnWorkers();
  if (scenario.two_projects) {
    for (const char* project : {"default", "other"}) {
      workers.push_back({"actor-0", {"actor"}, false, project});
      workers.push_back({"rollout-0", {"rollout"}, false, project});
      workers.push_back({"all-0", Everything(), false, project});
    }
  }
  if (scenario.seed % 4 == 0) workers.push_back({"foreign-0", {"reward"}, true});
  if (scenario.hosts) {
    for (const char* id : {"relay-0", "relay-1"}) workers.push_back({id, {kRelayRole}});
  }
  return workers;
}

// With the spec and the checkpoints.
store::v1::JobRow WholeRow(store::Store& store, const std::string& job) {
  const auto stored = store.Get(controller::kJobTable, job);
  if (!stored.ok() || !stored->has_value()) return {};
  const auto whole = controller::ReadStoredJob(store, {job, **stored});
  return whole.ok() ? whole->row : store::v1::JobRow();
}

}  // namespace

World::World(const Scenario& scenario, Coverage* coverage, bool tracing)
    : scenario_(scenario),
      coverage_(coverage),
      tracing_(tracing),
      random_(Mix(scenario.seed, 0x776f726c64)),
      controller_process_(time_.AddProcess()),
      slow_network_until_(absl::InfinitePast()),
      repeats_until_(absl::InfinitePast()) {
  for (int i = 0; i < 2; ++i) relays_.push_back(std::make_unique<SimulatedRelay>(this));
  for (const WorkerPlan& plan : WorkersOfTheWorld(scenario_)) {
    workers_.push_back(std::make_unique<SimulatedWorker>(this, workers_.size(), plan.id,
                                                         plan.project, plan.roles, plan.foreign));
  }
  unreachable_until_.resize(workers_.size(), absl::InfinitePast());
  stale_until_.resize(workers_.size(), absl::InfinitePast());
  newest_heard_.resize(workers_.size(), 0);
  disk_.store.Commit({{controller::kMetaTable, "secret", "secret"}}, [](const auto&) {});
  StartController();
  for (auto& worker : workers_) worker->Boot();
  for (size_t i = 0; i < scenario_.jobs.size(); ++i) {
    clients_.push_back(std::make_unique<SimulatedClient>(this, scenario_.jobs[i]));
    time_.After(scenario_.submitted[i], kWorld,
                [client = clients_.back().get()] { client->Submit(); });
  }
  faults_left_ = scenario_.faults.size();
  for (const Fault& fault : scenario_.faults) {
    time_.After(fault.at, kWorld, [this, &fault] {
      --faults_left_;
      Strike(fault);
    });
  }
}

World::~World() = default;

void World::Trace(const std::string& line) {
  if (!tracing_) return;
  const double at = absl::ToDoubleSeconds(now() - absl::UnixEpoch() - absl::Hours(1));
  trace_.push_back(absl::StrFormat("%9.4f  %s", at, line));
}

void World::Check(const char* invariant, const std::string& wrong) {
  if (wrong.empty() || !violation_.empty()) return;
  violation_ = absl::StrCat(invariant, ": ", wrong);
  Trace(absl::StrCat("BROKEN ", violation_));
}

bool World::Done() const {
  return faults_left_ == 0 &&
         std::all_of(clients_.begin(), clients_.end(), [](const auto& c) { return c->ended(); });
}

void World::Run() {
  const absl::Time limit = now() + kLimit;
  while (violation_.empty() && !Done() && now() < limit && time_.RunOne()) {
    ++events_;
    fingerprint_ = Mix(fingerprint_, static_cast<uint64_t>(absl::ToUnixNanos(now())));
    EndIfDead();
    if (controller_ != nullptr) controller_->rules().CheckJobs();
    for (const auto& relay : relays_) {
      Check("NothingLeasedIsGone", NothingLeasedIsGone(relay->given(), relay->segments(), now()));
    }
  }
  if (violation_.empty()) CheckEnd();
}

void World::CheckEnd() {
  for (const auto& client : clients_) {
    JobHistory& history = history_.jobs[client->job()];
    const JobFolder& folder = disk_.jobs[client->job()];
    const store::v1::JobRow row = WholeRow(disk_.store, client->job());
    coverage_->Ended(row.job().state());
    fingerprint_ = Mix(fingerprint_, static_cast<uint64_t>(row.job().state()));
    const std::string id = client->job() + ": ";
    auto check = [&](const char* name, const std::string& wrong) {
      Check(name, wrong.empty() ? wrong : id + wrong);
    };
    check("JobEndedWell", JobEndedWell(row, history));
    check("BatchesAreWhatWasConsumed",
          BatchesAreWhatWasConsumed(row, history, folder, StoredBatches(*this, client->job())));
    check("WeightsAreThoseOfTheRecordedBatches",
          WeightsAreThoseOfTheRecordedBatches(row, history, folder));
    check("WeightsAreThoseOfAnUndisturbedRun",
          WeightsAreThoseOfAnUndisturbedRun(row, history, folder));
    check("AnEvaluationAloneMeasuresAndSavesNothing",
          AnEvaluationAloneMeasuresAndSavesNothing(row, folder));
    check("TheBestCheckpointIsKept", TheBestCheckpointIsKept(row, history));
    check("TheNewestCheckpointKeepsTheOptimizer",
          TheNewestCheckpointKeepsTheOptimizer(row, folder));
    check("EveryBatchIsAccountedFor", EveryBatchIsAccountedFor(row, history, folder));
  }
}

SimulatedWorker* World::FindWorker(const std::string& id) {
  for (auto& worker : workers_) {
    if (worker->id() == id) return worker.get();
  }
  return nullptr;
}

SimulatedWorker& World::WorkerOf(uint64_t stream) { return *workers_[streams_.at(stream).worker]; }

SimulatedRelay& World::RelayOf(size_t worker) { return *relays_[worker % relays_.size()]; }

// ---- Network ------------------------------------------------------------------------------------

absl::Duration World::Delay() {
  const absl::Duration delay = random_.Milliseconds(0, 3);
  return slow_network_until_ > now() ? delay + random_.Milliseconds(0, 500) : delay;
}

bool World::Reaches(size_t worker) const {
  return unreachable_until_[worker] <= now() && time_.alive(controller_process_) &&
         controller_ != nullptr;
}

uint64_t World::Open(size_t worker) {
  if (!Reaches(worker)) return 0;
  const uint64_t number = next_stream_++;
  Stream& stream = streams_[number];
  stream.worker = worker;
  stream.worker_life = time_.life(workers_[worker]->process());
  stream.controller_life = time_.life(controller_process_);
  stream.stale = stale_until_[worker] > now();
  return number;
}

void World::SendUp(uint64_t number, v1::WorkerMessage message) {
  auto it = streams_.find(number);
  if (it == streams_.end() || it->second.cut_up || it->second.worker_knows) return;
  Stream& stream = it->second;
  stream.last_up = std::max(stream.last_up, now() + Delay());
  if (stream.stale) {
    if (!message.has_hello()) return;
    time_.At(stream.last_up, kWorld, [this, number, hello = message.hello()] {
      // A controller of the epoch before this one, which does not know that it was replaced.
      const uint64_t epoch = controller_ == nullptr ? 0 : controller_->epoch() - 1;
      controller::ClusterCore old(epoch, controller::ClusterOptions());
      Check("StaleEpochIsRefused",
            StaleEpochIsRefused(epoch, hello, old.OnHello(number, hello, now())));
      WorkerHears(number, Delay());
    });
    return;
  }
  const bool again = repeats_until_ > now() && message.has_result() && random_.Percent(50);
  auto deliver = [this, number, message = std::move(message)] { DeliverUp(number, message); };
  if (again) time_.At(stream.last_up + random_.Milliseconds(1, 800), controller_process_, deliver);
  time_.At(stream.last_up, controller_process_, std::move(deliver));
}

void World::DeliverUp(uint64_t number, const v1::WorkerMessage& message) {
  const auto found = streams_.find(number);
  if (found == streams_.end() || found->second.cut_up || found->second.controller_knows) return;
  if (found->second.stuck) return found->second.waiting.push_back(message);
  if (controller_ == nullptr) return;
  const size_t worker = found->second.worker;
  if (newest_heard_[worker] > number) {
    coverage_->Happened("messages that came after those of a newer stream");
  } else if (newest_heard_[worker] < number) {
    const uint64_t before = std::exchange(newest_heard_[worker], number);
    time_.After(random_.Milliseconds(0, 2), controller_process_,
                [this, before] { Release(before); });
  }
  controller_->OnMessage(number, message);
}

void World::Release(uint64_t number) {
  const auto it = streams_.find(number);
  if (it == streams_.end()) return;
  it->second.stuck = false;
  for (const auto& message : std::exchange(it->second.waiting, {})) DeliverUp(number, message);
}

void World::SendDown(uint64_t number, v1::ControllerMessage message) {
  auto it = streams_.find(number);
  if (it == streams_.end() || it->second.cut_down) return;
  Stream& stream = it->second;
  stream.last_down = std::max(stream.last_down, now() + Delay());
  const bool again =
      repeats_until_ > now() && random_.Percent(30) &&
      (message.has_result_ack() || message.has_heartbeat_ack() || message.has_task());
  // An ack may come again at any time; a task only while it is the newest of the stream.
  const bool late = !message.has_task();
  SimulatedWorker* worker = workers_[stream.worker].get();
  auto deliver = [this, number, worker, message = std::move(message)] {
    const auto found = streams_.find(number);
    if (found == streams_.end() || found->second.cut_down || found->second.worker_knows) return;
    worker->OnMessage(number, message);
  };
  if (again) {
    time_.At(stream.last_down + (late ? random_.Milliseconds(1, 800) : absl::ZeroDuration()),
             worker->process(), deliver);
  }
  time_.At(stream.last_down, worker->process(), std::move(deliver));
}

void World::WorkerHears(uint64_t number, absl::Duration after) {
  const auto it = streams_.find(number);
  if (it == streams_.end()) return;
  SimulatedWorker* worker = workers_[it->second.worker].get();
  if (it->second.worker_life != time_.life(worker->process())) return;
  time_.After(after, worker->process(), [this, number, worker] {
    const auto found = streams_.find(number);
    if (found == streams_.end() || std::exchange(found->second.worker_knows, true)) return;
    worker->OnStreamEnded(number);
  });
}

void World::ControllerHears(uint64_t number, absl::Duration after) {
  const auto it = streams_.find(number);
  if (it == streams_.end() || it->second.controller_life != time_.life(controller_process_)) return;
  time_.After(after, controller_process_, [this, number] {
    const auto found = streams_.find(number);
    if (found == streams_.end() || std::exchange(found->second.controller_knows, true)) return;
    if (!found->second.stale && controller_ != nullptr) controller_->OnClosed(number);
  });
}

void World::CloseByWorker(uint64_t number) {
  const auto it = streams_.find(number);
  if (it == streams_.end()) return;
  it->second.worker_knows = true;
  it->second.cut_down = true;
  const bool lost = it->second.cut_up;
  // Messages that it sent just before may still arrive.
  time_.After(Delay(), kWorld, [this, number] { streams_[number].cut_up = true; });
  ControllerHears(number, lost ? random_.Milliseconds(3000, 15000) : Delay());
}

void World::CloseByController(uint64_t number) {
  const auto it = streams_.find(number);
  if (it == streams_.end()) return;
  const bool lost = it->second.cut_down;
  // Messages that were sent before still arrive; then the end of the stream does.
  const absl::Duration rest = std::max(it->second.last_down - now(), absl::ZeroDuration());
  // Until the controller hears of the end, what is on its way may still arrive.
  WorkerHears(number, lost ? random_.Milliseconds(3000, 15000) : rest + Delay());
  ControllerHears(number, Delay());
}

void World::Cut(uint64_t number, bool up, bool down, absl::Duration worker_hears,
                absl::Duration controller_hears) {
  const auto it = streams_.find(number);
  if (it == streams_.end()) return;
  it->second.cut_up |= up;
  it->second.cut_down |= down;
  WorkerHears(number, worker_hears);
  ControllerHears(number, controller_hears);
}

void World::LeaveBehind(uint64_t number) {
  const auto it = streams_.find(number);
  if (it == streams_.end() || it->second.cut_up) return;
  it->second.stuck = true;
  time_.After(random_.Milliseconds(100, 6000), controller_process_,
              [this, number] { Release(number); });
  Cut(number, /*up=*/false, /*down=*/true, random_.Milliseconds(0, 500),
      random_.Milliseconds(200, 6000));
}

void World::Call(size_t worker, std::function<void(SimulatedController&)> request) {
  if (!Reaches(worker)) return;
  time_.After(Delay(), controller_process_, [this, request = std::move(request)] {
    if (controller_ != nullptr) request(*controller_);
  });
}

void World::Answer(size_t worker, std::function<void(SimulatedWorker&)> answer) {
  if (!Reaches(worker)) return;
  SimulatedWorker* to = workers_[worker].get();
  if (!time_.alive(to->process())) return;
  time_.After(Delay(), to->process(), [to, answer = std::move(answer)] { answer(*to); });
}

uint64_t World::StreamOf(size_t worker) const { return workers_[worker]->stream(); }

// ---- Faults -------------------------------------------------------------------------------------

void World::StartController() {
  time_.Start(controller_process_);
  time_.After(absl::ZeroDuration(), controller_process_, [this] {
    controller_ = std::make_unique<SimulatedController>(this);
    Trace(absl::StrCat("controller starts, epoch ", controller_->epoch()));
  });
}

void World::EndController(absl::Duration down, bool cuts_power) {
  // From numbers of their own, as those of power cuts are.
  Random random(Mix(Mix(scenario_.seed, events_), 0x656e64));
  const uint64_t life = time_.life(controller_process_);
  const bool runs = time_.alive(controller_process_) && controller_ != nullptr;
  if (!runs || random.Percent(40)) {
    KillController(down);
    if (cuts_power) CutPower();
  } else if (cuts_power || random.Percent(60)) {
    dying_ = {down, cuts_power};
    controller_->DieAfter(random.Below(40));
    time_.After(absl::Seconds(1), kWorld, [this, life] {
      if (dying_.has_value() && time_.life(controller_process_) == life) controller_->DieAfter(0);
    });
  } else {
    controller_->ShutDown();
    coverage_->Happened("controllers that were stopped");
    time_.After(random.Milliseconds(0, 20), kWorld, [this, down, life] {
      if (time_.life(controller_process_) == life) KillController(down);
    });
  }
}

void World::EndIfDead() {
  if (!dying_.has_value() || controller_ == nullptr || !controller_->dead()) return;
  const Dying how = *std::exchange(dying_, std::nullopt);
  coverage_->Happened("controllers that died between two calls");
  KillController(how.down);
  if (how.cuts_power) CutPower();
}

void World::KillController(absl::Duration down) {
  dying_.reset();
  if (!time_.alive(controller_process_)) return;
  time_.Kill(controller_process_);
  controller_ = nullptr;
  for (auto& [number, stream] : streams_) {
    stream.cut_up = stream.cut_down = true;
    WorkerHears(number, random_.Milliseconds(0, 500));
  }
  time_.After(down, kWorld, [this] { StartController(); });
}

// Cuts the power of the controller's machine; workers and relays are elsewhere. The controller may
// have been down already.
void World::CutPower() {
  // From numbers of its own: the rest of the world goes on as it would.
  Random random(Mix(scenario_.seed, events_));
  const size_t unsynced = disk_.store.unsynced();
  const size_t kept = random.Below(unsynced + 1);
  disk_.store.CutPower(kept);
  uint64_t records = 0;
  for (auto& [job, folder] : disk_.jobs) {
    records += folder.log.CutPower(random);
    for (store::v1::BatchRow& batch : StoredBatches(*this, job)) {
      history_.jobs[job].batches[batch.step()] = std::move(batch);
    }
    if (!scenario_.sync_payloads) continue;
    for (const store::v1::TrajectoryRow& row : StoredTrajectories(*this, job)) {
      Check("SyncedPayloadsSurvive", SyncedPayloadsSurvive(row, folder.log));
    }
  }
  coverage_->Happened("commits that power cuts took", unsynced - kept);
  coverage_->Happened("records of experience logs that power cuts took", records);
  if (tracing_) {
    Trace(absl::StrCat("the power is cut: ", unsynced - kept, " commits and ", records,
                       " records are lost"));
  }
}

SimulatedWorker* World::AgentOf(const SimulatedRelay* relay) {
  for (size_t i = 0; i < workers_.size(); ++i) {
    if (workers_[i]->IsRelay() && &RelayOf(i) == relay) return workers_[i].get();
  }
  return nullptr;
}

void World::KillWorker(size_t index, absl::Duration down) {
  SimulatedWorker* worker = workers_[index].get();
  if (!time_.alive(worker->process())) return;
  EndWorker(worker, down);
  if (worker->IsRelay()) EndRelay(&RelayOf(index), down);  // one process
}

void World::EndWorker(SimulatedWorker* worker, absl::Duration down) {
  const uint64_t stream = worker->stream();
  if (stream != 0 && streams_.count(stream) > 0) {
    streams_[stream].cut_up = streams_[stream].cut_down = true;
    // A process that dies ends its streams; a machine that dies ends nothing.
    ControllerHears(stream, random_.Percent(70) ? random_.Milliseconds(0, 100)
                                                : random_.Milliseconds(2000, 15000));
  }
  time_.Kill(worker->process());
  time_.After(down, kWorld, [this, worker] {
    if (time_.alive(worker->process())) return;
    time_.Start(worker->process());
    worker->Boot();
  });
}

void World::KillRelay(size_t index, absl::Duration down) {
  SimulatedRelay* relay = relays_[index].get();
  if (!time_.alive(relay->process())) return;
  EndRelay(relay, down);
  SimulatedWorker* const agent = AgentOf(relay);
  if (agent != nullptr && time_.alive(agent->process())) EndWorker(agent, down);
}

void World::EndRelay(SimulatedRelay* relay, absl::Duration down) {
  time_.Kill(relay->process());
  relay->Forget();
  time_.After(down, kWorld, [this, relay] {
    if (time_.alive(relay->process())) return;
    time_.Start(relay->process());
    relay->Boot();
  });
}

void World::Strike(const Fault& fault) {
  if (tracing_) Trace(absl::StrCat("FAULT ", Describe(fault)));
  for (const auto& client : clients_) {
    if (controller_ == nullptr) break;
    if (const auto where = controller_->Where(client->job())) {
      coverage_->Met(where->first, where->second, fault.kind);
    }
  }
  switch (fault.kind) {
    case FaultKind::kKillController:
      return EndController(fault.length, /*cuts_power=*/false);
    case FaultKind::kKillRelay:
      return KillRelay(fault.target % relays_.size(), fault.length);
    case FaultKind::kKillMachine:
      KillRelay(fault.target % 2, fault.length);
      for (size_t i = fault.target % 2; i < workers_.size(); i += 2) KillWorker(i, fault.length);
      return;
    case FaultKind::kLosePayloads:
      disk_.jobs[clients_[fault.target % clients_.size()]->job()].log.Damage(random_);
      return KillController(fault.length);
    case FaultKind::kCutPower:
      return EndController(fault.length, /*cuts_power=*/true);
    case FaultKind::kDiskFull:
      ++full_disks_;
      disk_.full = true;
      return time_.After(fault.length, kWorld, [this] { disk_.full = --full_disks_ > 0; });
    case FaultKind::kNoDataRoom:
      ++crowds_;
      disk_.crowded = true;
      return time_.After(fault.length, kWorld, [this] { disk_.crowded = --crowds_ > 0; });
    case FaultKind::kStoreRefuses:
      ++refusals_;
      disk_.refuses = true;
      return time_.After(fault.length, kWorld, [this] { disk_.refuses = --refusals_ > 0; });
    case FaultKind::kSlowNetwork:
      slow_network_until_ = std::max(slow_network_until_, now() + fault.length);
      return;
    case FaultKind::kRepeats:
      repeats_until_ = std::max(repeats_until_, now() + fault.length);
      return;
    case FaultKind::kPause:
      return clients_[fault.target % clients_.size()]->Pause(fault.length);
    case FaultKind::kCancel:
      return clients_[fault.target % clients_.size()]->Cancel();
    default:
      return StrikeWorker(fault, fault.target % workers_.size());
  }
}

void World::RestartLater(const std::string& worker) {
  time_.After(random_.Milliseconds(500, 4000), kWorld, [this, worker] {
    for (size_t i = 0; i < workers_.size(); ++i) {
      if (workers_[i]->id() == worker) KillWorker(i, absl::Milliseconds(100));
    }
  });
}

// A call may die with the controller: it is made until it is known to have been heard.
void World::TakeBackDrain(const std::string& worker) {
  if (controller_ != nullptr) controller_->Undrain(worker);
  time_.After(absl::Milliseconds(500), kWorld, [this, worker] {
    const auto drained = disk_.store.Get(controller::kWorkerTable, worker);
    if (!drained.ok() || drained->has_value()) TakeBackDrain(worker);
  });
}

void World::StrikeWorker(const Fault& fault, size_t index) {
  SimulatedWorker& worker = *workers_[index];
  const absl::Time until = now() + fault.length;
  const uint64_t stream = StreamOf(index);
  switch (fault.kind) {
    case FaultKind::kKillWorker:
      return KillWorker(index, fault.length);
    case FaultKind::kBreakStream:
      if (random_.Percent(50)) return LeaveBehind(stream);
      return Cut(stream, true, true, random_.Milliseconds(0, 500), random_.Milliseconds(0, 500));
    case FaultKind::kStaleController:
      stale_until_[index] = until;
      return Cut(stream, true, true, random_.Milliseconds(0, 100), random_.Milliseconds(0, 500));
    case FaultKind::kLoseRequests:
    case FaultKind::kLoseResponses:
    case FaultKind::kPartition:
      unreachable_until_[index] = std::max(unreachable_until_[index], until);
      return Cut(stream, fault.kind != FaultKind::kLoseResponses,
                 fault.kind != FaultKind::kLoseRequests, random_.Milliseconds(500, 15000),
                 random_.Milliseconds(500, 15000));
    case FaultKind::kHang: {
      // A hang of about a lease ends just before the worker would fence itself: its messages are
      // then late for the controller.
      const absl::Time fence = worker.lease_end();
      const bool about = fault.length >= kAboutALease && fault.length < absl::Seconds(10);
      const absl::Time wakes = about && fence > now() ? fence - fault.length % kHeardLate : until;
      return time_.Hang(worker.process(), wakes);
    }
    case FaultKind::kSlow:
      return worker.SetSlow(until);
    case FaultKind::kTaskErrors:
      return worker.SetFailing(until);
    case FaultKind::kDrain:
      if (controller_ != nullptr) controller_->Drain(worker.id());
      return time_.After(fault.length, kWorld, [this, index] {
        KillWorker(index, absl::Milliseconds(100));
        TakeBackDrain(workers_[index]->id());
      });
    default:
      return;
  }
}

}  // namespace baton::simulation
