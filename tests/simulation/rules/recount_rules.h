// Rules that recount a job's numbers about its work from the rows in the store.
#ifndef BATON_TESTS_SIMULATION_RULES_RECOUNT_RULES_H_
#define BATON_TESTS_SIMULATION_RULES_RECOUNT_RULES_H_

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
/// Whether the row is one of the evaluation after `step` that was told in that incarnation.
/// Nothing: one of an async job may have begun before a rollback.
bool IsOfEvaluation(const store::v1::TrajectoryRow& row, int64_t step,
                    std::optional<uint64_t> incarnation);

/// The failed attempts at a trajectory's work, as the core counts them.
struct Tries {
  uint32_t failures = 0;  ///< Attempts that ended with an error that counts.
  uint32_t losses = 0;    ///< Times that its payload was lost.
};
/// The count of `core` for the work that `ref` names; nullopt: it is not in progress.
std::optional<Tries> TriesOf(const controller::JobCore& core, const controller::TaskRef& ref);

/// An error counts against the limit of attempts, except in these cases: the task was stopped, the
/// worker has other weights, or an earlier controller may have counted the error already. `own`:
/// this controller gave the task.
std::string FailuresAreCounted(const Tries& before, const Tries& after,
                               const controller::TaskDone& done, bool own);

/// Responses that were asked for, of all controllers of a job.
class FirstTries {
 public:
  /// Responses are begun in the order of their prompt indices; a retry may come later. A trajectory
  /// uid names one trajectory of one step or evaluation, so a group that is begun anew after a
  /// rollback counts as another one. `incarnation`: the one in which the task was given.
  std::string Asked(const controller::TaskRef& ref, uint64_t incarnation);
  /// As Asked, for an async job, whose evaluations are begun beside its steps and whose dropped
  /// groups come again. One controller begins groups in the order in which it takes their prompts;
  /// groups that it found open come before. `own`: the first trajectory uid that it gives.
  std::string AskedAhead(const controller::TaskRef& ref, uint64_t own);

 private:
  std::set<uint64_t> asked_;  // trajectory uids
  uint64_t last_uid_ = 0;
  /// The last trajectory that trains, by incarnation. An evaluation's begin at 0 each time.
  std::map<uint64_t, uint64_t> last_id_;
  std::map<v1::Purpose, uint64_t> last_uid_of_;
};

}  // namespace baton::simulation

#endif  // BATON_TESTS_SIMULATION_RULES_RECOUNT_RULES_H_
