#include "tests/simulation/world/commit_rules.h"

#include <algorithm>
#include <map>
#include <set>

#include "controller/core/job/trajectory.h"
#include "controller/runtime/rows/tables.h"
#include "tests/simulation/rules/async_rules.h"
#include "tests/simulation/rules/recount_rules.h"

namespace baton::simulation {
namespace {

using controller::KeyNumber;

void CheckTrajectory(World& world, const std::string& job, const store::Write& write) {
  store::v1::TrajectoryRow row;
  (void)row.ParseFromString(*write.value);
  world.history().jobs[job].scored_by_error |= !row.error().empty() && row.error() != kNoReward;
  world.Check("PayloadIsBeforeItsRow", PayloadIsBeforeItsRow(row, world.disk().jobs[job].log));
}

// The rows of a job in that table once `writes` are stored, in the order of their keys.
template <typename T>
std::vector<T> RowsAfter(World& world, const char* table, const std::string& job,
                         const std::vector<store::Write>& writes) {
  std::map<std::string, std::string> rows;
  const auto stored = world.disk().store.Scan(table, controller::NumberRange(job, 0));
  for (const store::Row& row : *stored) rows[row.key] = row.value;
  for (const store::Write& write : writes) {
    if (write.table != table) continue;
    if (write.value.has_value()) {
      rows[write.key] = *write.value;
    } else if (write.end.empty()) {
      rows.erase(write.key);
    } else {
      rows.erase(rows.lower_bound(write.key), rows.lower_bound(write.end));
    }
  }
  std::vector<T> out;
  for (const auto& [key, value] : rows) {
    out.emplace_back();
    (void)out.back().ParseFromString(value);
  }
  return out;
}

std::vector<store::v1::BatchRow> BatchesAfter(World& world, const std::string& job,
                                              const std::vector<store::Write>& writes) {
  return RowsAfter<store::v1::BatchRow>(world, controller::kBatchTable, job, writes);
}

void CheckJob(World& world, const store::v1::JobRow& row, const std::vector<store::Write>& writes) {
  std::set<int64_t> batches;
  for (const store::v1::BatchRow& batch : BatchesAfter(world, row.job().name(), writes)) {
    batches.insert(batch.step());
  }
  world.Check("BatchesFollowTheSteps", BatchesFollowTheSteps(row, batches));
  const JobHistory& history = world.history().jobs[row.job().name()];
  world.Check("OpenGroupsAreBounded", OpenGroupsAreBounded(history.spec, row));
  world.Check("VersionsCountTheirUpdates", VersionsCountTheirUpdates(row, history));
}

std::vector<store::v1::TrajectoryRow> TrajectoriesAfter(World& world, const std::string& job,
                                                        const std::vector<store::Write>& writes) {
  return RowsAfter<store::v1::TrajectoryRow>(world, controller::kTrajectoryTable, job, writes);
}

// The job's row among `writes`; without fields if there is none.
store::v1::JobRow RowAmong(const std::vector<store::Write>& writes, const std::string& job) {
  const auto own = std::find_if(writes.begin(), writes.end(), [&](const store::Write& other) {
    return other.table == controller::kJobTable && other.key == job && other.value.has_value();
  });
  store::v1::JobRow row;
  if (own != writes.end()) (void)row.ParseFromString(*own->value);
  return row;
}

// A response in a batch was sampled by the weights that its row names, and has its own reward.
void CheckRewardOf(World& world, const JobHistory& history, const store::v1::TrajectoryRow& row) {
  const auto weights = history.published.find(row.policy_version());
  if (weights == history.published.end()) return;
  const Payload response =
      Respond(weights->second, row.purpose(), row.prompt_id(), row.prompt_index(), row.sample());
  world.Check(
      "EveryResponseHasItsReward",
      EveryResponseHasItsReward(history.spec, history, controller::FromRow(row, 0, 0), response));
}

void CheckBatch(World& world, const std::string& job, const store::Write& write,
                const std::vector<store::Write>& writes) {
  store::v1::BatchRow batch;
  (void)batch.ParseFromString(*write.value);
  const store::v1::JobRow row = RowAmong(writes, job);
  world.Check("BatchIsCommittedWithItsUpdate", BatchIsCommittedWithItsUpdate(row, batch));
  // A step without anything to train on ends with its batch, and lets go of the oldest rows.
  std::vector<store::Write> puts = writes;
  std::erase_if(puts, [](const store::Write& put) { return !put.value.has_value(); });
  world.Check("BatchedResponsesAreStored",
              BatchedResponsesAreStored(batch, TrajectoriesAfter(world, job, puts)));
  JobHistory& history = world.history().jobs[job];
  for (const store::v1::BatchEntry& entry : batch.entries()) {
    CheckRewardOf(world, history, entry.trajectory());
  }
  world.Check("BatchesAreInOrder", BatchesAreInOrder(history, batch));
  history.batches[batch.step()] = std::move(batch);
}

// Judged before a later turn is stored, which may delete the rows that were counted.
void CheckMetrics(World& world, const std::string& job, const store::Write& write,
                  const std::vector<store::Write>& writes) {
  v1::StepMetrics told;
  (void)told.ParseFromString(*write.value);
  store::v1::BatchRow batch;
  for (const store::v1::BatchRow& row : BatchesAfter(world, job, writes)) {
    if (row.step() == told.step()) batch = row;
  }
  const std::vector<store::v1::TrajectoryRow> rows = TrajectoriesAfter(world, job, writes);
  const std::map<std::string, double> metrics(told.metrics().begin(), told.metrics().end());
  const JobHistory& history = world.history().jobs[job];
  std::optional<uint64_t> incarnation;
  if (!IsAsync(history.spec)) incarnation = RowAmong(writes, job).incarnation();
  world.Check("MetricsEqualARecount",
              MetricsEqualARecount(rows, batch, told.step(), incarnation, metrics));
  if (history.spec.kind() != v1::JOB_KIND_RL || metrics.count("val/reward") == 0) return;
  world.Check("AnEvaluationIsOfOneVersion",
              AnEvaluationIsOfOneVersion(rows, history, told.step(), incarnation));
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
    } else if (write.table == controller::kMetricTable) {
      CheckMetrics(world, job, write, writes);
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
  return RowsAfter<store::v1::TrajectoryRow>(world, controller::kTrajectoryTable, job, {});
}

std::vector<store::v1::BatchRow> StoredBatches(World& world, const std::string& job) {
  return BatchesAfter(world, job, {});
}

}  // namespace baton::simulation
