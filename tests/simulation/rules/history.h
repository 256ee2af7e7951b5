// The world's record of its jobs, by which the rules judge.
#ifndef BATON_TESTS_SIMULATION_RULES_HISTORY_H_
#define BATON_TESTS_SIMULATION_RULES_HISTORY_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "baton/store/v1/rows.pb.h"
#include "controller/core/job/task.h"
#include "tests/simulation/rules/recount_rules.h"

namespace baton::simulation {

/// One batch that made weights out of others.
struct Consumption {
  uint64_t before = 0;
  int64_t step = 0;
  std::vector<uint64_t> ids;
  uint64_t branch = 0;  ///< Branch of the actor that did it (disk.h).
};
/// The world's record of a job.
struct JobHistory {
  v1::JobSpec spec;                        ///< Effective.
  std::map<uint64_t, uint64_t> published;  ///< Version -> weights, ever.
  /// Version -> updates that made it. The weights do not tell: after a rollback the same responses
  /// may make the same weights in fewer or more batches.
  std::map<uint64_t, uint64_t> updates_of;
  std::map<uint64_t, Consumption> made_by;  ///< Weights -> how they came to be.
  /// Trajectory uid -> incarnation and id of the trajectory whose task had it first.
  std::map<uint64_t, std::pair<uint64_t, uint64_t>> trajectory_uids;
  std::map<std::string, std::string> current;  ///< Subject -> token and worker, sent last.
  /// Subjects whose attempts died with the controller: it adopts the one that a worker tells of,
  /// which need not be the last (its message may have been lost).
  std::set<std::string> forgotten;
  std::set<std::string>
      stopped;  ///< Work that a controller stopped; the next one knows nothing of it.
  FirstTries begun;
  uint64_t asked = 0;    ///< Newest version it was to publish.
  int64_t revision = 0;  ///< Newest committed event.
  /// A worker's failures took a reward that could be computed: other weights follow.
  bool scored_by_error = false;
  /// By step: its batch, as it was stored last.
  std::map<int64_t, store::v1::BatchRow> batches;
  /// For an async job: by response, the weights with which its actor scored it last.
  std::map<uint64_t, uint64_t> rescored;
  bool cancelled = false;  ///< By the job's user.
  bool revivable = false;  ///< The job's user resumes it after its end, once.
};
/// A task that a worker has begun and not ended.
struct TaskAtWork {
  std::string worker;
  std::string role;
  controller::TaskKind kind = controller::TaskKind::kGenerate;
};
/// A lease on a relay's segment, as its holder was given it.
struct LeaseGiven {
  std::string job;
  uint64_t version = 0;
  std::string holder;
  std::string segment_id;
  absl::Time end;
};
struct History {
  uint64_t epoch = 0;  ///< Epoch of the newest controller.
  std::map<std::string, JobHistory> jobs;
  std::map<std::string, absl::Time> lease_end;  ///< By worker, as the controller granted it.
};

}  // namespace baton::simulation

#endif  // BATON_TESTS_SIMULATION_RULES_HISTORY_H_
