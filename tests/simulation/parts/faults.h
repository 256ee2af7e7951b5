// The faults of a run and their times: drawn from the seed before the run begins, so that a fault
// can be left out and the rest stays.
#ifndef BATON_TESTS_SIMULATION_PARTS_FAULTS_H_
#define BATON_TESTS_SIMULATION_PARTS_FAULTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/simulation/parts/model.h"

namespace baton::simulation {

enum class FaultKind {
  kKillWorker,       ///< A process dies and is started again.
  kKillController,   ///< … the controller, from its store.
  kKillRelay,        ///< … a relay, which returns empty.
  kKillMachine,      ///< A relay and every second worker at once.
  kBreakStream,      ///< Messages under way in both directions are lost.
  kLoseRequests,     ///< A worker's messages are lost; it still receives.
  kLoseResponses,    ///< Messages to a worker are lost; its own still arrive.
  kPartition,        ///< A worker reaches nobody.
  kHang,             ///< Alive but silent.
  kSlow,             ///< Everything takes ten times as long.
  kTaskErrors,       ///< Tasks of a worker end with Unavailable; its disk is full.
  kStoreRefuses,     ///< No row is written.
  kSlowNetwork,      ///< Delays grow to half a second.
  kRepeats,          ///< Results, acks and calls arrive a second time, late.
  kStaleController,  ///< The worker attaches to a controller of an older epoch.
  kDrain,            ///< An operator drains a worker, and starts it anew later.
  kPause,            ///< A job's user pauses it, and resumes it later.
  kCancel,           ///< A job's user cancels it.
  kLosePayloads,     ///< Half of a job's experience log is damaged, and the controller dies.
  kCutPower,         ///< The controller's machine dies, and what its disk had not synced is lost.
  kDiskFull,         ///< No payload and no checkpoint can be written.
  kNoDataRoom,       ///< The controller's memory has no room for the data of a job that begins.
};
inline constexpr int kFaultKinds = static_cast<int>(FaultKind::kNoDataRoom) + 1;
const char* FaultName(FaultKind kind);

struct Fault {
  FaultKind kind = FaultKind::kKillWorker;
  absl::Duration at;      ///< From the run's beginning.
  absl::Duration length;  ///< Duration of the fault.
  uint64_t target = 0;    ///< Worker, relay or job, modulo their number.
};
std::string Describe(const Fault& fault);

/// Everything that a seed decides beforehand.
struct Scenario {
  uint64_t seed = 0;
  std::vector<JobPlan> jobs;
  std::vector<absl::Duration> submitted;  ///< Time of submission, job by job.
  std::vector<Fault> faults;
  /// Some jobs are of a second project, and both have workers of their own, with the same ids.
  bool two_projects = false;
  bool lossy_calls = false;  ///< Clients' calls and answers may be lost.
  /// The controller syncs payloads before the rows that name them.
  bool sync_payloads = false;
  /// The longest that reading a job's data files takes: a few milliseconds, or seconds.
  absl::Duration data_read = absl::Milliseconds(10);
  /// Budgets of payloads, of all jobs and of each: often of a few responses, or of none.
  uint64_t payload_bytes = 0, job_payload_bytes = 0;
  /// Relays are workers of the controller, and follow its orders; the workers of one relay are one
  /// host. Otherwise the controller knows no relay, and these hand versions on by themselves.
  bool hosts = false;
  bool digests_turns = false;  ///< Chosen by the caller of RunSeeds, not by the seed.
};
Scenario MakeScenario(uint64_t seed);

}  // namespace baton::simulation

#endif  // BATON_TESTS_SIMULATION_PARTS_FAULTS_H_
