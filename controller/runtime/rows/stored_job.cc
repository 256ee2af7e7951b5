#include "controller/runtime/rows/stored_job.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/core/loop/job_core.h"
#include "controller/core/views/check_row.h"
#include "controller/runtime/rows/checkpoint_rows.h"
#include "controller/runtime/rows/tables.h"
#include "sdk/common/base/status_macros.h"

namespace baton::controller {
namespace {

absl::Status Damaged(const std::string& name, absl::string_view why) {
  return absl::DataLossError(absl::StrCat("the row of job ", name, " is damaged", why));
}

absl::Status ReadTrajectories(store::Store& store, const std::string& name, StoredJob* job) {
  const auto& steps = job->row.kept_steps();
  const v1::Job::State state = job->row.job().state();
  // Open groups wait for the job while it is paused.
  const bool waits = !IsTerminal(state) && job->row.oldest_serial() != 0;
  if (!(IsActive(state) || waits) || steps.empty()) return absl::OkStatus();
  uint64_t first = steps[steps.size() - 1].first_serial();
  // The job's work may be older than its step.
  if (const uint64_t oldest = job->row.oldest_serial(); oldest != 0)
    first = std::min(first, oldest);
  BATON_ASSIGN_OR_RETURN(const auto rows, store.Scan(kTrajectoryTable, NumberRange(name, first)));
  for (const store::Row& row : rows) {
    if (!job->trajectories[KeyNumber(row.key)].ParseFromString(row.value)) {
      return absl::DataLossError(absl::StrCat("trajectory row ", row.key, " is damaged"));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadNextLogSequence(store::Store& store, const std::string& name, StoredJob* job) {
  store::ScanOptions newest = NumberRange(name, 0);
  newest.reverse = true;
  newest.limit = 1;
  BATON_ASSIGN_OR_RETURN(const auto rows, store.Scan(kLogTable, newest));
  if (!rows.empty()) job->next_log_sequence = static_cast<int64_t>(KeyNumber(rows[0].key)) + 1;
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadSpec(store::Store& store, const std::string& name, v1::Job* job) {
  // These fields are only in their own row.
  job->clear_spec();
  job->clear_effective_spec();
  job->clear_dataflow();
  BATON_ASSIGN_OR_RETURN(const auto stored, store.Get(kSpecTable, name));
  if (stored.has_value() && job->MergeFromString(*stored)) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the spec of job ", name, " is missing or damaged"));
}

absl::StatusOr<StoredJob> ReadStoredJob(store::Store& store, const store::Row& stored) {
  StoredJob job;
  if (!job.row.ParseFromString(stored.value)) return Damaged(stored.key, "");
  BATON_RETURN_IF_ERROR(ReadSpec(store, stored.key, job.row.mutable_job()));
  BATON_RETURN_IF_ERROR(ReadCheckpoints(store, stored.key, &job.row));
  absl::Status good = CheckRow(job.row);
  if (good.ok() && job.row.job().name() != stored.key) {
    good = absl::DataLossError(job.row.job().name());
  }
  if (!good.ok()) return Damaged(stored.key, absl::StrCat(": ", good.message()));
  BATON_RETURN_IF_ERROR(ReadTrajectories(store, stored.key, &job));
  BATON_RETURN_IF_ERROR(ReadNextLogSequence(store, stored.key, &job));
  return job;
}

}  // namespace baton::controller
