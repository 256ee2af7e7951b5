#include "tests/simulation/commit_rules.h"

#include <algorithm>
#include <set>

#include "controller/runtime/tables.h"

namespace baton::simulation {
namespace {

using controller::KeyNumber;

void CheckTrajectory(World& world, const std::string& job, const store::Write& write) {
  store::v1::TrajectoryRow row;
  (void)row.ParseFromString(*write.value);
  world.history().jobs[job].scored_by_error |= !row.error().empty() && row.error() != kNoReward;
  world.Check("PayloadIsBeforeItsRow", PayloadIsBeforeItsRow(row, world.disk().jobs[job].log));
}

// The steps that have a batch once `writes` are stored.
std::set<int64_t> BatchesAfter(World& world, const std::string& job,
                               const std::vector<store::Write>& writes) {
  std::set<int64_t> steps;
  const auto rows =
      world.disk().store.Scan(controller::kBatchTable, controller::NumberRange(job, 0));
  for (const store::Row& row : *rows) steps.insert(static_cast<int64_t>(KeyNumber(row.key)));
  for (const store::Write& write : writes) {
    if (write.table != controller::kBatchTable) continue;
    const auto step = static_cast<int64_t>(KeyNumber(write.key));
    if (write.value.has_value()) {
      steps.insert(step);
    } else {
      steps.erase(step);
    }
  }
  return steps;
}

void CheckJob(World& world, const store::v1::JobRow& row, const std::vector<store::Write>& writes) {
  world.Check("BatchesFollowTheSteps",
              BatchesFollowTheSteps(row, BatchesAfter(world, row.job().name(), writes)));
  world.Check("VersionsCountTheirUpdates",
              VersionsCountTheirUpdates(row, world.history().jobs[row.job().name()]));
}

void CheckBatch(World& world, const std::string& job, const store::Write& write,
                const std::vector<store::Write>& writes) {
  store::v1::BatchRow batch;
  (void)batch.ParseFromString(*write.value);
  const auto own = std::find_if(writes.begin(), writes.end(), [&](const store::Write& other) {
    return other.table == controller::kJobTable && other.key == job && other.value.has_value();
  });
  store::v1::JobRow row;
  if (own != writes.end()) (void)row.ParseFromString(*own->value);
  world.Check("BatchIsCommittedWithItsUpdate", BatchIsCommittedWithItsUpdate(row, batch));
}

}  // namespace

void CheckCommit(World& world, const std::vector<store::Write>& writes) {
  for (const store::Write& write : writes) {
    if (!write.value.has_value()) continue;
    const std::string job = write.key.substr(0, write.key.rfind('#'));
    if (write.table == controller::kEventTable) {
      JobHistory& history = world.history().jobs[job];
      const auto revision = static_cast<int64_t>(KeyNumber(write.key));
      world.Check("RevisionsHaveNoGap", RevisionsHaveNoGap(history, revision));
      history.revision = revision;
    } else if (write.table == controller::kTrajectoryTable) {
      CheckTrajectory(world, job, write);
    } else if (write.table == controller::kBatchTable) {
      CheckBatch(world, job, write, writes);
    } else if (write.table == controller::kJobTable) {
      store::v1::JobRow row;
      (void)row.ParseFromString(*write.value);
      CheckJob(world, row, writes);
    } else if (write.table == controller::kCheckpointTable) {
      v1::Checkpoint checkpoint;
      (void)checkpoint.ParseFromString(*write.value);
      world.Check("ListedCheckpointIsComplete",
                  ListedCheckpointIsComplete(checkpoint, world.disk().jobs[job]));
    }
  }
}

store::v1::JobRow StoredRow(World& world, const std::string& job) {
  store::v1::JobRow row;
  const auto stored = world.disk().store.Get(controller::kJobTable, job);
  if (stored.ok() && stored->has_value()) (void)row.ParseFromString(**stored);
  return row;
}

std::vector<store::v1::TrajectoryRow> StoredTrajectories(World& world, const std::string& job) {
  std::vector<store::v1::TrajectoryRow> out;
  const auto rows =
      world.disk().store.Scan(controller::kTrajectoryTable, controller::NumberRange(job, 0));
  for (const store::Row& row : *rows) {
    out.emplace_back();
    (void)out.back().ParseFromString(row.value);
  }
  return out;
}

std::vector<store::v1::BatchRow> StoredBatches(World& world, const std::string& job) {
  std::vector<store::v1::BatchRow> out;
  const auto rows =
      world.disk().store.Scan(controller::kBatchTable, controller::NumberRange(job, 0));
  for (const store::Row& row : *rows) {
    out.emplace_back();
    (void)out.back().ParseFromString(row.value);
  }
  return out;
}

}  // namespace baton::simulation
