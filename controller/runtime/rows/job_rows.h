// The rows that a job's turns write, and the older rows that they delete.
#ifndef BATON_CONTROLLER_RUNTIME_ROWS_JOB_ROWS_H_
#define BATON_CONTROLLER_RUNTIME_ROWS_JOB_ROWS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "baton/v1/job_service.pb.h"
#include "controller/core/loop/job_core.h"
#include "controller/store/store.h"

namespace baton::controller {

/// Limits of a job's kept history (retention.h).
struct KeptRows {
  int64_t events = 0;   ///< The newest so many.
  int64_t logs = 0;     ///< The newest so many; a long one counts as several (LogUnits).
  int64_t metrics = 0;  ///< The newest so many steps and evaluations keep all their metrics.
};

struct TurnRows {
  std::vector<store::Write> writes;
  bool job = false;  ///< The job's own row is one of them.
};

/// The writes for the `effects` that an event had on `core`.
TurnRows RowsOfTurn(const JobCore& core, const Effects& effects, const KeptRows& kept);

/// For a turn with a row that the store will never take: keeps the other rows, and the effects that
/// give something back or tell watchers. The job fails, so no other effect may leave.
void LeaveOutRefused(const store::Store& store, Effects* effects,
                     std::vector<store::Write>* writes);

/// The number of lines that a log line counts as: one for each kLogUnitBytes of its text.
int64_t LogUnits(const std::string& message);

/// The writes for a line of the job's log. Its sequence number is the last of as many as its units.
std::vector<store::Write> RowsOfLog(const std::string& job, const v1::LogEntry& entry,
                                    const KeptRows& kept);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_ROWS_JOB_ROWS_H_
