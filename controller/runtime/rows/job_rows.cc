#include "controller/runtime/rows/job_rows.h"

#include <algorithm>
#include <optional>
#include <variant>

#include "controller/runtime/rows/retention.h"
#include "controller/runtime/rows/tables.h"
#include "controller/spec/settings/step_size.h"
#include "sdk/common/contracts/text_bounds.h"

namespace baton::controller {
namespace {

// The store takes every batch row that the spec and the core allow.
static_assert(kMaxBatchRowBytes < static_cast<int64_t>(store::kMaxRowBytes));

// A single write, however far the numbers of a damaged row lie apart.
store::Write RangeWrite(const char* table, const std::string& job, uint64_t begin, uint64_t end) {
  store::Write write{table, NumberKey(job, begin), std::nullopt};
  write.end = NumberKey(job, end);
  return write;
}

void RemoveOld(const char* table, const std::string& job, int64_t number, int64_t kept,
               std::vector<store::Write>& writes) {
  const auto [first, last] = GoneWith(number, kept);
  for (int64_t old = first; old < last; ++old) {
    writes.push_back({table, NumberKey(job, static_cast<uint64_t>(old)), std::nullopt});
  }
}

// An evaluation and the step before it have the same step number, but separate rows. Evaluations
// are counted separately: they are few, so they stay longer.
void PutMetricsRow(const JobCore& core, const PutMetrics& metrics, int64_t kept,
                   std::vector<store::Write>& writes) {
  v1::StepMetrics row;
  row.set_step(metrics.step);
  for (const auto& [name, value] : metrics.metrics) (*row.mutable_metrics())[name] = value;
  const bool evaluation = metrics.metrics.count("val/accuracy") > 0;
  const auto key = [&](int64_t step) {
    return NumberKey(core.name(), static_cast<uint64_t>(step), evaluation ? "/val" : "/step");
  };
  writes.push_back({kMetricTable, key(metrics.step), row.SerializeAsString()});
  const int64_t every =
      evaluation ? std::max<int64_t>(1, core.effective_spec().trainer().test_freq()) : 1;
  if (metrics.step % every != 0) return;
  for (const int64_t old : ThinnedWith(metrics.step / every, kept)) {
    writes.push_back({kMetricTable, key(old * every), std::nullopt});
  }
}

}  // namespace

TurnRows RowsOfTurn(const JobCore& core, const Effects& effects, const KeptRows& kept) {
  TurnRows rows;
  const std::string& job = core.name();
  for (const Effect& effect : effects) {
    if (std::holds_alternative<PutJob>(effect)) {
      rows.job = true;
    } else if (const auto* put = std::get_if<PutTrajectory>(&effect)) {
      rows.writes.push_back(
          {kTrajectoryTable, NumberKey(job, put->serial),
           ToRow(put->trajectory, put->step, put->incarnation).SerializeAsString(),
           store::kSchemaVersion});
    } else if (const auto* emit = std::get_if<EmitEvent>(&effect)) {
      if (!emit->kept) continue;
      const int64_t revision = emit->event.revision();
      rows.writes.push_back({kEventTable, NumberKey(job, static_cast<uint64_t>(revision)),
                             emit->event.SerializeAsString()});
      RemoveOld(kEventTable, job, revision, kept.events, rows.writes);
      rows.job = true;  // the revision is in the job's row
    } else if (const auto* metrics = std::get_if<PutMetrics>(&effect)) {
      PutMetricsRow(core, *metrics, kept.metrics, rows.writes);
    } else if (const auto* put = std::get_if<PutCheckpoint>(&effect)) {
      rows.writes.push_back({kCheckpointTable,
                             NumberKey(job, static_cast<uint64_t>(put->checkpoint.step())),
                             put->checkpoint.SerializeAsString(), store::kSchemaVersion});
    } else if (const auto* gone = std::get_if<DeleteCheckpoint>(&effect)) {
      rows.writes.push_back({kCheckpointTable,
                             NumberKey(job, static_cast<uint64_t>(gone->checkpoint.step())),
                             std::nullopt});
    } else if (const auto* drop = std::get_if<DropTrajectories>(&effect)) {
      rows.writes.push_back(RangeWrite(kTrajectoryTable, job, drop->begin, drop->end));
    } else if (const auto* put = std::get_if<PutBatch>(&effect)) {
      rows.writes.push_back({kBatchTable, NumberKey(job, static_cast<uint64_t>(put->row.step())),
                             put->row.SerializeAsString(), store::kSchemaVersion});
    } else if (const auto* drop = std::get_if<DropBatches>(&effect)) {
      rows.writes.push_back(RangeWrite(kBatchTable, job, static_cast<uint64_t>(drop->begin),
                                       static_cast<uint64_t>(drop->end)));
    }
  }
  if (rows.job)
    rows.writes.push_back(
        {kJobTable, job, core.BriefRow().SerializeAsString(), store::kSchemaVersion});
  return rows;
}

void LeaveOutRefused(const store::Store& store, Effects* effects,
                     std::vector<store::Write>* writes) {
  std::erase_if(*writes, [&](const store::Write& write) { return !store.CheckRow(write).ok(); });
  std::erase_if(*effects, [](const Effect& effect) {
    const bool stays =
        std::holds_alternative<ReturnWorker>(effect) ||
        std::holds_alternative<LeaveQueue>(effect) || std::holds_alternative<StopTask>(effect) ||
        std::holds_alternative<DropPayloads>(effect) || std::holds_alternative<EmitEvent>(effect);
    return !stays;
  });
}

int64_t LogUnits(const std::string& message) {
  if (message.size() <= kLogUnitBytes) return 1;
  return static_cast<int64_t>((message.size() + kLogUnitBytes - 1) / kLogUnitBytes);
}

std::vector<store::Write> RowsOfLog(const std::string& job, const v1::LogEntry& entry,
                                    const KeptRows& kept) {
  std::vector<store::Write> writes = {{kLogTable,
                                       NumberKey(job, static_cast<uint64_t>(entry.sequence())),
                                       entry.SerializeAsString()}};
  const int64_t end = entry.sequence() + 1;
  for (int64_t unit = end - LogUnits(entry.message()); unit < end; ++unit) {
    RemoveOld(kLogTable, job, unit, kept.logs, writes);
  }
  return writes;
}

}  // namespace baton::controller
