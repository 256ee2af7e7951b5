#include "tests/simulation/world/simulated_ports.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/runtime/rows/tables.h"
#include "tests/simulation/parts/wire.h"
#include "tests/simulation/world/commit_rules.h"

namespace baton::simulation {
namespace {

// Runs one piece of work after the other. Each takes up to `longest`, or begins that much later.
class SimulatedStrand : public controller::Executor {
 public:
  SimulatedStrand(World* world, PortCalls* calls, bool takes_time)
      : world_(*world), calls_(*calls), takes_time_(takes_time) {}

  void Post(Work work) override {
    if (!calls_.Take()) return;
    const absl::Time now = world_.now();
    last_ = takes_time_ ? std::max(last_, now) + world_.random().Milliseconds(0, 10)
                        : std::max(last_, now + world_.random().Milliseconds(0, 1));
    world_.time().At(last_, world_.controller_process(), std::move(work));
  }

  // The posted work holds the job, and so this strand.
  void PostAfter(absl::Duration delay, Work work) override {
    if (!calls_.Take()) return;
    world_.time().After(delay, world_.controller_process(),
                        [this, work = std::move(work)]() mutable { Post(std::move(work)); });
  }

 private:
  World& world_;
  PortCalls& calls_;
  const bool takes_time_;
  absl::Time last_ = absl::InfinitePast();
};

absl::Status DiskFull(World& world) {
  world.coverage().Happened("writes that a full disk refused");
  return absl::ResourceExhaustedError("the disk is full");
}

class SimulatedLog : public experience::ExperienceLog {
 public:
  SimulatedLog(World* world, PortCalls* calls, std::string job, LogFiles* files)
      : world_(*world), calls_(*calls), job_(std::move(job)), files_(*files) {}

  absl::StatusOr<experience::Location> Append(absl::string_view payload) override {
    if (!calls_.Take()) return absl::UnavailableError("dead");
    if (world_.disk().full) return DiskFull(world_);
    return files_.Append(payload, &file_);
  }
  absl::StatusOr<std::string> Read(const experience::Location& location) override {
    return files_.Read(location);
  }
  absl::Status Sync() override {
    if (!calls_.Take()) return absl::UnavailableError("dead");
    files_.Sync();
    return absl::OkStatus();
  }
  absl::Status DropFiles(uint32_t end, absl::FunctionRef<bool(uint32_t)> needed) override {
    if (!calls_.Take()) return absl::UnavailableError("dead");
    files_.DropFiles(end, needed);
    world_.Check("DeletedFilesAreNotNeeded",
                 DeletedFilesAreNotNeeded(StoredTrajectories(world_, job_),
                                          StoredBatches(world_, job_), files_));
    return absl::OkStatus();
  }

 private:
  World& world_;
  PortCalls& calls_;
  const std::string job_;
  LogFiles& files_;
  uint32_t file_ = 0;  // that is appended to; 0: none yet
};

constexpr int64_t kPartBytes =
    1000;  // a model's file; an optimizer has two moments for each weight

std::optional<v1::Checkpoint> StoredCheckpoint(store::Store& store, const std::string& job,
                                               int64_t step) {
  const auto row = store.Get(controller::kCheckpointTable,
                             controller::NumberKey(job, static_cast<uint64_t>(step)));
  v1::Checkpoint checkpoint;
  if (!row.ok() || !row->has_value() || !checkpoint.ParseFromString(**row)) return std::nullopt;
  return checkpoint;
}

std::vector<baton::Example> DataExamples(uint64_t count) {
  std::vector<baton::Example> examples;
  for (uint64_t i = 0; i < count; ++i) examples.push_back(DataExample(i));
  return examples;
}

class SimulatedJobFiles : public controller::JobFiles {
 public:
  SimulatedJobFiles(World* world, PortCalls* calls, std::string job)
      : world_(*world), calls_(*calls), job_(std::move(job)) {}

  uint64_t DataBytes(const v1::DataSpec& /*data*/) const override { return 0; }

  absl::StatusOr<controller::JobData> ReadData(const v1::JobSpec& effective,
                                               bool held) const override {
    if (world_.disk().crowded && !held) {
      world_.coverage().Happened("data that found no room");
      return absl::ResourceExhaustedError("room for its examples");
    }
    DataSet train, val;
    if (effective.data().train_files_size() > 0) {
      train.examples = DataExamples(kTrainSize);
      train.file_sizes = FileSizes(effective.data().train_files_size());
    }
    if (effective.data().val_files_size() > 0) val.examples = DataExamples(kValSize);
    return controller::MakeJobData(std::move(train), std::move(val));
  }

  absl::StatusOr<std::unique_ptr<experience::ExperienceLog>> OpenLog() override {
    return std::make_unique<SimulatedLog>(&world_, &calls_, job_, &folder().log);
  }

  std::string CheckpointPath(int64_t step) const override {
    return absl::StrCat(job_, "/step-", step);
  }
  std::string TemporaryCheckpointPath(int64_t step, uint64_t incarnation) const override {
    return absl::StrCat(CheckpointPath(step), ".", incarnation, ".tmp");
  }

  absl::Status PrepareCheckpoint(int64_t step, uint64_t incarnation,
                                 const std::string& role) override {
    if (!calls_.Take()) return absl::UnavailableError("dead");
    const std::string path = TemporaryCheckpointPath(step, incarnation);
    CheckpointFolder kept = folder().temporary[path];
    kept.trained.erase(role);
    folder().temporary = {{path, kept}};
    return absl::OkStatus();
  }

  bool IsPrepared(int64_t step, uint64_t incarnation) const override {
    return folder().temporary.count(TemporaryCheckpointPath(step, incarnation)) > 0;
  }

  absl::StatusOr<v1::Checkpoint> CommitCheckpoint(
      int64_t step, uint64_t incarnation, const store::v1::JobRow& row,
      const std::vector<v1::FileHash>& written) override {
    if (!calls_.Take()) return absl::UnavailableError("dead");
    if (world_.disk().full) return DiskFull(world_);
    const std::string path = TemporaryCheckpointPath(step, incarnation);
    const auto begun = folder().temporary.find(path);
    if (begun == folder().temporary.end()) return absl::DataLossError("there is no such folder");
    CheckpointFolder checkpoint = begun->second;
    checkpoint.row = row;
    world_.Check("ManifestNamesEveryPart", ManifestNamesEveryPart(checkpoint, written));
    const JobHistory& history = world_.history().jobs[job_];
    if (!history.scored_by_error || IsAsync(row.job().effective_spec())) {
      world_.Check("CheckpointBelongsTogether",
                   CheckpointBelongsTogether(checkpoint, history, step));
    }
    folder().temporary.erase(path);
    folder().complete[step] = checkpoint;
    v1::Checkpoint complete;
    complete.set_step(step);
    complete.set_path(CheckpointPath(step));
    complete.set_policy_version(row.job().policy_version());
    complete.set_size_bytes(3 * kPartBytes);
    complete.set_optimizer_bytes(2 * kPartBytes);
    return complete;
  }

  void DeleteCheckpoint(const v1::Checkpoint& checkpoint) override {
    if (calls_.Take()) folder().complete.erase(checkpoint.step());
  }

  absl::StatusOr<int64_t> DropOptimizer(const v1::Checkpoint& checkpoint) override {
    if (!calls_.Take()) return absl::UnavailableError("dead");
    const auto found = folder().complete.find(checkpoint.step());
    if (found == folder().complete.end()) return 0;
    world_.Check("OnlyMarkedCheckpointsLoseTheOptimizer",
                 OnlyMarkedCheckpointsLoseTheOptimizer(
                     StoredCheckpoint(world_.disk().store, job_, checkpoint.step())));
    return std::exchange(found->second.optimizer, false) ? 2 * kPartBytes : 0;
  }

  absl::Status RemoveAll() override {
    if (calls_.Take()) world_.disk().jobs.erase(job_);
    return absl::OkStatus();
  }

  std::shared_ptr<void> MarkWork() override { return nullptr; }

 private:
  JobFolder& folder() const { return world_.disk().jobs[job_]; }

  World& world_;
  PortCalls& calls_;
  const std::string job_;
};

}  // namespace

std::unique_ptr<controller::Executor> SimulatedExecutors::NewStrand() {
  return std::make_unique<SimulatedStrand>(&world_, &calls_, /*takes_time=*/false);
}

std::unique_ptr<controller::Executor> SimulatedExecutors::NewDiskStrand() {
  return std::make_unique<SimulatedStrand>(&world_, &calls_, /*takes_time=*/true);
}

void SimulatedExecutors::PostRead(controller::Executor::Work work) {
  if (!calls_.Take()) return;
  world_.time().After(world_.random().Milliseconds(0, 3), world_.controller_process(),
                      std::move(work));
}

void SimulatedExecutors::PostDataRead(const std::string& /*job*/, std::function<uint64_t()> bytes,
                                      controller::Executor::Work work) {
  if (!calls_.Take()) return;
  (void)bytes();
  const int64_t longest = world_.scenario().data_read / absl::Milliseconds(1);
  world_.time().After(world_.random().Milliseconds(0, longest), world_.controller_process(),
                      std::move(work));
}

void SimulatedStore::Commit(std::vector<store::Write> writes, store::Durability durability,
                            Done done) {
  if (!calls_.Take()) return;
  if (shut_down_) return done(absl::CancelledError("the store shuts down"));
  waiting_.push_back({std::move(writes), durability, std::move(done)});
  if (!std::exchange(pumping_, true)) PumpLater(world_.random().Milliseconds(0, 8));
}

void SimulatedStore::PumpLater(absl::Duration delay) {
  world_.time().After(delay, world_.controller_process(), [this] { Pump(); });
}

// Writes one group: everything that waits, in order. The answers come later, and not if the
// controller dies.
void SimulatedStore::Pump() {
  if (world_.disk().refuses) return PumpLater(absl::Milliseconds(50));
  pumping_ = false;
  for (Waiting& commit : std::exchange(waiting_, {})) {
    CheckCommit(world_, commit.writes);
    world_.disk().store.Commit(std::move(commit.writes), commit.durability, [](absl::Status) {});
    if (!commit.done) continue;
    world_.time().After(absl::Microseconds(200), world_.controller_process(),
                        [done = std::move(commit.done)] { done(absl::OkStatus()); });
  }
}

void SimulatedStore::ShutDown() {
  shut_down_ = true;
  for (Waiting& commit : std::exchange(waiting_, {})) {
    if (commit.done) commit.done(absl::CancelledError("the store shuts down"));
  }
}

absl::StatusOr<std::optional<std::string>> SimulatedStore::Get(absl::string_view table,
                                                               absl::string_view key) {
  return world_.disk().store.Get(table, key);
}

absl::StatusOr<std::vector<store::Row>> SimulatedStore::Scan(absl::string_view table,
                                                             const store::ScanOptions& options) {
  return world_.disk().store.Scan(table, options);
}

absl::Status SimulatedStore::health() const {
  return world_.disk().refuses ? absl::ResourceExhaustedError("the disk is full")
                               : absl::OkStatus();
}

std::unique_ptr<controller::JobFiles> SimulatedFiles::FilesOf(const std::string& job) {
  return std::make_unique<SimulatedJobFiles>(&world_, &calls_, job);
}

}  // namespace baton::simulation
