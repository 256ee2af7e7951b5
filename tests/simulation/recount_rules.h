// What a job says of its work, counted again from the rows in the store.
#ifndef BATON_TESTS_SIMULATION_RECOUNT_RULES_H_
#define BATON_TESTS_SIMULATION_RECOUNT_RULES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "baton/store/v1/rows.pb.h"
#include "controller/core/loop/job_core.h"

namespace baton::simulation {

/// The metrics of a step, or of an evaluation after it, equal what the rows of its responses say:
/// mean rewards, and how many responses of an evaluation have none. "" when they do, else which
/// does not. `rows`: all trajectories of the job, as the turn that told the metrics left them; a
/// later turn may delete them. `batch`: the row of the step's batch. Rows of its responses may be
/// older than all that are kept: an async job trains on what was made some steps ago.
std::string MetricsEqualARecount(const std::vector<store::v1::TrajectoryRow>& rows,
                                 const store::v1::BatchRow& batch, int64_t step,
                                 std::optional<uint64_t> incarnation,
                                 const std::map<std::string, double>& metrics);
/// The row is one of the evaluation after `step` that was told in that incarnation. Nothing: one
/// of an async job may have begun before its job went back.
bool IsOfEvaluation(const store::v1::TrajectoryRow& row, int64_t step,
                    std::optional<uint64_t> incarnation);

/// How often a trajectory's work was tried in vain, as the core counts it.
struct Tries {
  uint32_t failures = 0;  ///< Attempts that ended with an error that counts.
  uint32_t losses = 0;    ///< Times that its payload was lost.
};
/// What `core` counts for the work that `ref` names; none: it is not in progress.
std::optional<Tries> TriesOf(const controller::JobCore& core, const controller::TaskRef& ref);

/// An error counts against the limit of attempts, except in these cases: the task was stopped, the
/// worker has other weights, or an earlier controller may have counted the error already. `own`:
/// this controller gave the task.
std::string FailuresAreCounted(const Tries& before, const Tries& after,
                               const controller::TaskDone& done, bool own);

/// Responses that were asked for, of all controllers of a job.
class FirstTries {
 public:
  /// They are begun in the order of their draws; what is tried again may come later. A birth number
  /// names one trajectory of one step or evaluation, so a draw that is begun anew after a way back
  /// counts as another one. `incarnation`: in which it was asked for.
  std::string Asked(const controller::TaskRef& ref, uint64_t incarnation);
  /// Likewise of an async job, whose evaluations are begun beside its steps and whose dropped draws
  /// come again. What one controller draws, it begins in the order in which it draws it; what it
  /// found open comes before that. `own`: the first birth number that it gives.
  std::string AskedAhead(const controller::TaskRef& ref, uint64_t own);

 private:
  std::set<uint64_t> asked_;  // birth numbers
  uint64_t last_birth_ = 0;
  /// The last trajectory that trains, by incarnation. An evaluation's begin at 0 each time.
  std::map<uint64_t, uint64_t> last_id_;
  std::map<v1::Purpose, uint64_t> last_birth_of_;
};

}  // namespace baton::simulation

#endif  // BATON_TESTS_SIMULATION_RECOUNT_RULES_H_
