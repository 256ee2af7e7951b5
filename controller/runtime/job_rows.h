// The rows that a job's turns write, and which older ones give way to them.
#ifndef BATON_CONTROLLER_RUNTIME_JOB_ROWS_H_
#define BATON_CONTROLLER_RUNTIME_JOB_ROWS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "baton/v1/job_service.pb.h"
#include "controller/core/job_core.h"
#include "controller/store/store.h"

namespace baton::controller {

/// How much of a job's history is kept (retention.h).
struct KeptRows {
  int64_t events = 0;   ///< The newest.
  int64_t logs = 0;     ///< The newest.
  int64_t metrics = 0;  ///< Steps and evaluations that keep all of theirs.
};

struct TurnRows {
  std::vector<store::Write> writes;
  bool job = false;  ///< The job's own row is among them.
};

/// What is written for the `effects` that an event had on `core`.
TurnRows RowsOfTurn(const JobCore& core, const Effects& effects, const KeptRows& kept);

/// What is written for a line of the job's log.
std::vector<store::Write> RowsOfLog(const std::string& job, const v1::LogEntry& entry,
                                    const KeptRows& kept);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_JOB_ROWS_H_
