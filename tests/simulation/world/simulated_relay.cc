#include "tests/simulation/world/simulated_relay.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/simulation/world/simulated_worker.h"
#include "tests/simulation/world/world.h"

namespace baton::simulation {

namespace {
constexpr absl::Duration kLeaseTime = absl::Seconds(10);  // a reader may hang longer
const relay::TensorDigest kTensor = {"w", 1};
}  // namespace

SimulatedRelay::SimulatedRelay(World* world)
    : world_(*world),
      process_(world->time().AddProcess()),
      keep_(1 + static_cast<int>(world->scenario().seed % 2)) {
  MakeTable();
}

void SimulatedRelay::MakeTable() {
  const uint64_t life = world_.time().life(process_);
  table_.emplace(relay::SegmentTable::Options{keep_, absl::StrCat("relay", process_, ".", life)});
}

bool SimulatedRelay::alive() const { return world_.time().alive(process_); }

void SimulatedRelay::Forget() {
  memory_.clear();
  free_.clear();
  given_.clear();
  kept_.clear();
  orders_.clear();
}

void SimulatedRelay::Boot() {
  MakeTable();
  if (world_.scenario().hosts) return;
  for (auto& relay : world_.relays()) {
    if (relay.get() == this || !relay->alive()) continue;
    for (const relay::SealedSegment& segment : relay->table_->List("")) {
      Take(segment.job, segment.version, *relay->memory_.at(segment.segment_id),
           relay->kept_[segment.job]);
    }
  }
}

absl::StatusOr<SimulatedRelay::Writing> SimulatedRelay::Begin(const std::string& job,
                                                              uint64_t version, bool fork,
                                                              const std::vector<uint64_t>& keep) {
  if (!alive()) return absl::UnavailableError("the relay does not answer");
  auto begun = table_->Begin(job, version, 1, 1, fork);
  if (!begun.ok()) return begun.status();
  Dispose(begun->retired);
  Dispose(table_->Keep(job, keep));
  kept_[job] = keep;
  Mapping memory = std::make_shared<Memory>();
  if (!free_.empty()) {
    memory = std::move(free_.back());
    free_.pop_back();
  }
  memory_[begun->segment_id] = memory;
  const relay::TensorShapes tensors = {{kTensor.name, {1}}};
  if (auto opened = table_->Open(begun->segment_id, begun->segment_id, tensors, world_.now());
      !opened.ok()) {
    return opened;
  }
  return Writing{begun->segment_id, std::move(memory)};
}

absl::Status SimulatedRelay::Finish(const std::string& segment_id) {
  const relay::TensorDigest tensors[] = {kTensor};
  if (auto s = table_->Commit(segment_id, 0, tensors); !s.ok()) return s;
  if (auto s = table_->StartSeal(segment_id); !s.ok()) return s.status();
  const auto retired = table_->FinishSeal(segment_id);
  if (!retired.ok()) return retired.status();
  Dispose(*retired);
  if (SimulatedWorker* const agent = world_.AgentOf(this)) agent->ReportRelay();
  return absl::OkStatus();
}

absl::Status SimulatedRelay::Seal(const std::string& job, uint64_t version,
                                  const std::string& segment_id) {
  if (!alive()) return absl::UnavailableError("the relay does not answer");
  if (auto s = Finish(segment_id); !s.ok()) return s;
  HandOn(job, version);
  return absl::OkStatus();
}

void SimulatedRelay::HandOn(const std::string& job, uint64_t version) {
  for (const relay::SealedSegment& segment : table_->List(job)) {
    if (segment.version != version) continue;
    for (auto& other : world_.relays()) {
      if (other.get() == this || !IsNext(*other, job)) continue;
      world_.time().After(
          world_.Delay() + world_.random().Milliseconds(1, 50), other->process_,
          [to = other.get(), job, version, content = *memory_.at(segment.segment_id),
           keep = kept_[job]] { to->Take(job, version, content, keep); });
    }
  }
}

// The address of a relay is the number of its process.
bool SimulatedRelay::IsNext(const SimulatedRelay& other, const std::string& job) const {
  if (!world_.scenario().hosts) return true;
  const auto order = orders_.find(job);
  return order != orders_.end() && order->second.next() == absl::StrCat(other.process_);
}

void SimulatedRelay::Follow(const v1::RelayOrders& orders) {
  bool changed = false;
  for (const v1::RelayOrder& order : orders.orders()) {
    v1::RelayOrder& known = orders_[order.job()];
    if (order.generation() <= known.generation()) continue;
    known = order;
    for (const relay::SealedSegment& segment : table_->List(order.job())) {
      HandOn(order.job(), segment.version);
    }
    changed = true;
  }
  // What it had before it knew of the job is told with the job's uid from now on.
  SimulatedWorker* const agent = world_.AgentOf(this);
  if (changed && agent != nullptr) agent->ReportRelay();
}

void SimulatedRelay::ForgetJobs(const v1::RelayForget& forget) {
  for (const v1::RelayVersions& job : forget.jobs()) {
    // What it reported before it knew the job's uid is not the job that it has orders for.
    const auto order = orders_.find(job.job());
    if (order == orders_.end() || order->second.job_uid() != job.job_uid()) continue;
    orders_.erase(order);
    for (const relay::SealedSegment& segment : table_->List(job.job())) Drop(segment.segment_id);
  }
}

v1::RelayReport SimulatedRelay::Report() const {
  std::map<std::string, std::vector<uint64_t>> versions;
  for (const relay::SealedSegment& segment : table_->List("")) {
    versions[segment.job].push_back(segment.version);
  }
  v1::RelayReport report;
  for (const auto& [job, of] : versions) {
    v1::RelayVersions& told = *report.add_jobs();
    told.set_job(job);
    told.mutable_versions()->Assign(of.begin(), of.end());
    const auto order = orders_.find(job);
    if (order == orders_.end()) continue;
    told.set_job_uid(order->second.job_uid());
    told.set_generation(order->second.generation());
  }
  return report;
}

// Takes a version from another relay, unless this one has it, or newer ones.
void SimulatedRelay::Take(const std::string& job, uint64_t version, Memory content,
                          const std::vector<uint64_t>& keep) {
  auto writing = Begin(job, version, /*fork=*/false, keep);
  if (!writing.ok()) return;
  *writing->memory = content;
  (void)Finish(writing->segment_id);
}

absl::StatusOr<SimulatedRelay::Loading> SimulatedRelay::Acquire(const std::string& job,
                                                                uint64_t version,
                                                                const std::string& holder) {
  if (!alive()) return absl::UnavailableError("the relay does not answer");
  auto lease = table_->Acquire(job, version, holder, kLeaseTime, world_.now());
  if (!lease.ok()) return lease.status();
  const std::string& segment = lease->segment.segment_id;
  given_[lease->lease_id] = {job, version, holder, segment, world_.now() + kLeaseTime};
  world_.time().After(kLeaseTime, process_, [this] { Expire(); });
  return Loading{lease->lease_id, memory_.at(segment)};
}

void SimulatedRelay::Release(const std::string& lease_id) {
  if (!alive()) return;
  given_.erase(lease_id);
  const auto retired = table_->Release(lease_id);
  if (retired.ok()) Dispose(*retired);
}

void SimulatedRelay::Drop(const std::string& segment_id) {
  if (alive()) Dispose(table_->Drop(segment_id));
}

void SimulatedRelay::Expire() {
  for (auto it = given_.begin(); it != given_.end();) {
    it = it->second.end <= world_.now() ? given_.erase(it) : std::next(it);
  }
  Dispose(table_->Expire(world_.now()));
}

void SimulatedRelay::Dispose(const std::vector<relay::RetiredSegment>& retired) {
  for (const relay::RetiredSegment& segment : retired) {
    const auto it = memory_.find(segment.segment_id);
    if (it == memory_.end()) continue;
    if (segment.recyclable) free_.push_back(it->second);
    memory_.erase(it);
  }
}

std::set<std::string> SimulatedRelay::segments() const {
  std::set<std::string> ids;
  for (const auto& [id, memory] : memory_) ids.insert(id);
  return ids;
}

}  // namespace baton::simulation
