// SimulatedWorker: session, lease, ledger, sequencer (sdk/worker).
#include "tests/simulation/world/simulated_worker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/cluster/cluster_core.h"
#include "sdk/common/contracts/worker_features.h"
#include "tests/simulation/parts/wire.h"
#include "tests/simulation/rules/invariants.h"

namespace baton::simulation {

using controller::TaskKind;

namespace {
const absl::Duration kLease = controller::ClusterOptions().lease;
const absl::Duration kHeartbeat = controller::ClusterOptions().heartbeat_interval;
constexpr int kCredits = 4;

std::vector<std::string> OwnMethodsOf(const std::string& role) {
  if (role == "rollout") return {"generate", "load_weights", "run_ahead"};
  if (role == "actor") {
    return {"update", "publish", "to_generation", "save_checkpoint", "compute_log_prob"};
  }
  if (role == "critic") return {"compute_values", "update", "save_checkpoint"};
  if (role == "reference") return {"compute_log_prob"};
  if (role == "relay") return {"assign_role"};
  return {"compute_reward"};
}

v1::Hello MakeOffer(const std::vector<std::string>& roles, bool foreign) {
  v1::Hello offer;
  if (!foreign) offer.add_features(kRewardRulesFeature);
  offer.add_features(kChatTemplatesFeature);
  offer.add_features(kSftEvaluationFeature);
  offer.add_features(kUndecayedNormsFeature);
  for (const std::string& role : roles) {
    const auto methods = foreign ? std::vector<std::string>{"compute_other"} : OwnMethodsOf(role);
    for (const std::string& name : methods) {
      v1::MethodCredits* method = offer.add_methods();
      method->set_role(role);
      method->set_method(name);
      method->set_credits(kCredits);
    }
  }
  return offer;
}
}  // namespace

SimulatedWorker::SimulatedWorker(World* world, size_t index, const std::string& said_id,
                                 std::string project, std::vector<std::string> roles, bool foreign)
    : world_(*world),
      index_(index),
      id_(controller::WorkerName(project, said_id)),
      said_id_(said_id),
      project_(std::move(project)),
      roles_(std::move(roles)),
      offer_(MakeOffer(roles_, foreign)),
      process_(world->time().AddProcess()) {}

void SimulatedWorker::Boot() {
  instance_ = absl::StrCat("i", world_.time().life(process_));
  stream_ = 0;
  attached_ = false;
  epoch_ = 0;
  lease_end_ = absl::InfinitePast();
  heartbeats_.clear();
  held_.clear();
  running_.clear();
  contexts_.clear();
  results_.clear();
  groups_.clear();
  exclusive_.clear();
  backoff_ = absl::Milliseconds(50);
  world_.time().After(world_.random().Milliseconds(0, 100), process_, [this] { Connect(); });
}

bool SimulatedWorker::Holds(const std::string& job) const {
  if (!world_.time().alive(process_)) return false;
  return std::any_of(held_.begin(), held_.end(),
                     [&](const auto& held) { return held.second.job == job; });
}

bool SimulatedWorker::HoldsRank(const std::string& job, const std::string& role,
                                uint64_t group_epoch) const {
  if (!world_.time().alive(process_)) return false;
  const auto held = held_.find(role);
  return held != held_.end() && held->second.job == job && held->second.group_epoch == group_epoch;
}

std::map<std::string, TaskAtWork> SimulatedWorker::AtWork(const std::string& job) const {
  std::map<std::string, TaskAtWork> out;
  if (!world_.time().alive(process_)) return out;
  for (const auto& [context, running] : contexts_) {
    if (!running.started || running.task.job != job) continue;
    out[running.task.token] = {id_, running.task.role, running.task.kind};
  }
  return out;
}

absl::Duration SimulatedWorker::Work(int low_ms, int high_ms) {
  return world_.random().Milliseconds(low_ms, high_ms) * (slow_until_ > world_.now() ? 10 : 1);
}

absl::Duration SimulatedWorker::WorkOf(const std::string& job, int low_ms, int high_ms) {
  int times = 1;
  for (const JobPlan& plan : world_.scenario().jobs) {
    if (job == JobNameOf(plan)) times = plan.slowness;
  }
  return Work(low_ms, high_ms) * times;
}

// ---- Session ----------------------------------------------------------------------------------

void SimulatedWorker::Connect() {
  if (stream_ != 0) return;
  stream_ = world_.Open(index_);
  backoff_ = std::min(backoff_ * 2, absl::Seconds(1));
  if (stream_ == 0) return world_.time().After(backoff_, process_, [this] { Connect(); });
  v1::WorkerMessage message;
  v1::Hello& hello = *message.mutable_hello();
  hello = offer_;
  hello.set_group_store(id_);
  hello.set_worker_id(said_id_);
  hello.set_instance_id(instance_);
  hello.set_protocol_min(1);
  hello.set_protocol_max(1);
  hello.set_epoch_seen(epoch_);
  if (world_.scenario().hosts) {
    const std::string host = absl::StrCat(world_.RelayOf(index_).process());
    hello.set_memory_id(host);
    if (IsRelay()) {
      hello.mutable_relay()->set_address(host);
      hello.mutable_relay()->set_chain_address(host);
    }
  }
  for (const auto& [role, held] : held_) {
    v1::RoleHeld* entry = hello.add_roles_held();
    entry->set_job(held.job);
    entry->set_role(role);
    entry->set_group_epoch(held.group_epoch);
    entry->set_policy_version(held.state.version);
  }
  for (const auto& [token, context] : running_) hello.add_running()->set_task_token(token);
  for (const auto& [token, result] : results_) hello.add_unacknowledged(token);
  hello_sent_ = world_.now();
  world_.SendUp(stream_, std::move(message));
  world_.time().After(absl::Seconds(10), process_, [this, stream = stream_] {
    if (stream_ == stream && !attached_) Disconnect();  // never welcomed
  });
}

void SimulatedWorker::Disconnect() {
  if (stream_ != 0) world_.CloseByWorker(stream_);
  OnStreamEnded(stream_);
}

void SimulatedWorker::OnStreamEnded(uint64_t stream) {
  if (stream == 0 || stream != stream_) return;
  stream_ = 0;
  attached_ = false;
  heartbeats_.clear();
  world_.time().After(backoff_, process_, [this] { Connect(); });
}

void SimulatedWorker::Accept(const v1::Welcome& welcome) {
  if (welcome.epoch() < epoch_) return Disconnect();
  epoch_ = welcome.epoch();
  attached_ = true;
  backoff_ = absl::Milliseconds(50);
  lease_end_ = hello_sent_ + kLease;
  WatchLease();
  for (const v1::RoleHeld& release : welcome.release()) {
    const auto it = held_.find(release.role());
    if (it == held_.end() || it->second.job != release.job()) continue;
    LetGo(release.job(), release.role());
  }
  for (const auto& [token, result] : results_) SendResult(token);
  for (const auto& [token, context] : running_) {
    const Running& task = contexts_.at(context);
    for (const auto& [offset, count] : task.chunks) SendProgress(task, offset, count);
  }
  if (IsRelay()) ReportRelay();
  Heartbeat(stream_);
}

void SimulatedWorker::ReportRelay() {
  if (!attached_ || !world_.time().alive(process_)) return;
  v1::WorkerMessage message;
  *message.mutable_relay_report() = world_.RelayOf(index_).Report();
  world_.SendUp(stream_, std::move(message));
}

void SimulatedWorker::Heartbeat(uint64_t stream) {
  world_.time().After(kHeartbeat, process_, [this, stream] {
    if (stream_ != stream) return;
    v1::WorkerMessage message;
    message.mutable_heartbeat()->set_sequence(next_heartbeat_++);
    heartbeats_[message.heartbeat().sequence()] = world_.now();
    world_.SendUp(stream, std::move(message));
    Heartbeat(stream);
  });
}

void SimulatedWorker::WatchLease() {
  world_.time().At(lease_end_, process_, [this] {
    if (lease_end_ == absl::InfinitePast()) return;
    if (lease_end_ <= world_.now()) return Fence();
    // Renewed meanwhile: the renewal watches its new end.
  });
}

void SimulatedWorker::Fence() {
  if (world_.tracing()) world_.Trace(absl::StrCat(id_, " fences itself"));
  lease_end_ = absl::InfinitePast();
  running_.clear();
  contexts_.clear();
  held_.clear();
  groups_.clear();
  exclusive_.clear();
  Disconnect();
}

void SimulatedWorker::OnMessage(uint64_t stream, v1::ControllerMessage message) {
  if (stream != stream_) return;
  if (message.has_welcome()) return Accept(message.welcome());
  if (message.has_heartbeat_ack()) return Renew(message.heartbeat_ack());
  if (message.has_task() && message.task().epoch() >= epoch_) return Dispatch(message.task());
  if (message.has_relay_orders()) return world_.RelayOf(index_).Follow(message.relay_orders());
  if (message.has_relay_forget()) return world_.RelayOf(index_).ForgetJobs(message.relay_forget());
  if (message.has_result_ack()) results_.erase(message.result_ack().task_token());
  if (!message.has_cancel()) return;
  const auto it = running_.find(message.cancel().task_token());
  if (it == running_.end()) return;
  const Running& running = contexts_.at(it->second);
  Result cancelled;
  if (running.content != 0) {  // a response that has begun
    cancelled.stopped = true;
    cancelled.payload = running.task.trajectory;
    cancelled.payload.tokens = running.done;
  } else {
    cancelled.status = absl::CancelledError("cancelled");
  }
  Finish(it->second, cancelled);
}

void SimulatedWorker::Renew(const v1::HeartbeatAck& ack) {
  const auto sent = heartbeats_.find(ack.sequence());
  if (ack.epoch() < epoch_ || sent == heartbeats_.end()) return;
  if (lease_end_ != absl::InfinitePast() && sent->second + kLease > lease_end_) {
    lease_end_ = sent->second + kLease;
    WatchLease();
  }
  heartbeats_.erase(heartbeats_.begin(), std::next(sent));
}

// ---- Ledger and sequencer -----------------------------------------------------------------------

void SimulatedWorker::Dispatch(const v1::Task& message) {
  std::optional<TaskMessage> read = ReadTask(message);
  world_.Check("TasksCanBeRead",
               read.has_value() ? "" : "a task brings a payload in pieces, or a wrong prompt");
  if (!read.has_value()) return;
  TaskMessage task = *std::move(read);
  world_.Check("WorkersOfferWhatTheyAreAsked", WorkersOfferWhatTheyAreAsked(offer_, task));
  if (running_.count(task.token) > 0) return;
  if (results_.count(task.token) > 0) return SendResult(task.token);
  const uint64_t context = next_context_++;
  running_[task.token] = context;
  contexts_[context] = Running{task, context, false, {}, 0};
  if (task.group_epoch == 0) return Launch(context);
  Offer(context, task);
}

// GroupSequencer::Offer.
void SimulatedWorker::Offer(uint64_t context, const TaskMessage& task) {
  Group& group = groups_[{task.job, task.role}];
  auto refuse = [&](uint64_t refused) {
    Result result;
    result.status = absl::FailedPreconditionError("STALE_GROUP_EPOCH");
    Finish(refused, result);
  };
  if (task.group_epoch < group.group_epoch) return refuse(context);
  if (task.group_epoch > group.group_epoch) {
    const auto held = std::exchange(group.held, {});
    group = Group();
    group.group_epoch = task.group_epoch;
    group.next = task.sequence;
    for (const auto& [sequence, old] : held) refuse(old);
  }
  if (task.sequence > 0) {
    world_.Check("SequenceIsNeverSkipped",
                 SequenceIsNeverSkipped(group.next == 0 ? 0 : group.next - 1, task));
  }
  const auto before = group.held.find(task.sequence);
  const uint64_t superseded = before == group.held.end() ? 0 : before->second;
  group.held[task.sequence] = context;
  if (superseded != 0) refuse(superseded);
  StartNext(group);
}

void SimulatedWorker::StartNext(Group& group) {
  while (!group.held.empty() && group.held.begin()->first + 1 < group.next) {
    const uint64_t passed = group.held.begin()->second;
    group.held.erase(group.held.begin());
    Result result;
    result.status = absl::FailedPreconditionError("SEQUENCE_PASSED");
    Finish(passed, result);
  }
  if (group.running != 0 || group.held.empty() || group.held.begin()->first > group.next) return;
  group.running = group.held.begin()->second;
  group.held.erase(group.held.begin());
  Launch(group.running);
}

SimulatedWorker::Running* SimulatedWorker::Find(uint64_t context) {
  const auto it = contexts_.find(context);
  return it == contexts_.end() ? nullptr : &it->second;
}

void SimulatedWorker::Later(uint64_t context, absl::Duration delay,
                            std::function<void(Running&)> work) {
  world_.time().After(delay, process_, [this, context, work = std::move(work)] {
    if (Running* running = Find(context)) work(*running);
  });
}

void SimulatedWorker::Finish(uint64_t context, Result result) {
  Running* running = Find(context);
  if (running == nullptr) return;
  const TaskMessage task = running->task;
  contexts_.erase(context);
  running_.erase(task.token);
  results_[task.token] = MakeResult(task, result);
  if (attached_) SendResult(task.token);
  std::deque<uint64_t>& queue = exclusive_[task.role];
  const bool first = !queue.empty() && queue.front() == context;
  queue.erase(std::remove(queue.begin(), queue.end(), context), queue.end());
  if (first && !queue.empty()) Start(queue.front());
  const auto group = groups_.find({task.job, task.role});
  if (group == groups_.end() || group->second.running != context) return;
  group->second.running = 0;
  group->second.done = std::max(group->second.done, task.sequence);
  group->second.next = std::max(group->second.next, task.sequence + 1);
  StartNext(group->second);
}

void SimulatedWorker::SendResult(const std::string& token) {
  v1::WorkerMessage message;
  *message.mutable_result() = results_.at(token);
  world_.SendUp(stream_, std::move(message));
}

void SimulatedWorker::SendProgress(const Running& running, uint32_t offset, uint32_t count) {
  v1::WorkerMessage message;
  *message.mutable_progress() = MakeProgress(running.task.token, running.content, offset, count);
  world_.SendUp(stream_, std::move(message));
}

SimulatedWorker::Held* SimulatedWorker::HeldFor(const TaskMessage& task) {
  const auto it = held_.find(task.role);
  return it == held_.end() || it->second.job != task.job ? nullptr : &it->second;
}

}  // namespace baton::simulation
