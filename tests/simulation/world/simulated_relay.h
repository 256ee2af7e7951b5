// A host's relay: the real table of segments and leases (relay/segment), with numbers for bytes.
//
// The code around the table stands for relay/server's: the table says what is retired, and the
// double recycles or removes it. A version that is sealed in one relay is handed on to the others,
// or to the next one of the job's chain.
#ifndef BATON_TESTS_SIMULATION_WORLD_SIMULATED_RELAY_H_
#define BATON_TESTS_SIMULATION_WORLD_SIMULATED_RELAY_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "baton/v1/worker_service.pb.h"
#include "relay/segment/segment_table.h"
#include "tests/simulation/parts/scheduler.h"
#include "tests/simulation/rules/invariants.h"

namespace baton::simulation {

class World;

class SimulatedRelay {
 public:
  /// A segment's shared memory, as its readers see it.
  struct Memory {
    uint64_t weights = 0;
    uint64_t branch = 0;
  };
  using Mapping = std::shared_ptr<Memory>;
  struct Writing {
    std::string segment_id;
    Mapping memory;
  };
  struct Loading {
    std::string lease_id;
    std::shared_ptr<const Memory> memory;
  };

  explicit SimulatedRelay(World* world);
  ProcessId process() const { return process_; }
  /// The relay asks the others for what they have.
  void Boot();
  /// The relay died: its segments go with it.
  void Forget();

  // Errors of SegmentTable; Unavailable: it is dead.
  absl::StatusOr<Writing> Begin(const std::string& job, uint64_t version, bool fork,
                                const std::vector<uint64_t>& keep);
  /// The only rank has written; the version is visible and handed on.
  absl::Status Seal(const std::string& job, uint64_t version, const std::string& segment_id);
  absl::StatusOr<Loading> Acquire(const std::string& job, uint64_t version,
                                  const std::string& holder);
  void Release(const std::string& lease_id);
  void Drop(const std::string& segment_id);
  /// To the relays that lack it. They keep the versions that this one keeps. In a world of hosts:
  /// to the relay that the newest order names.
  void HandOn(const std::string& job, uint64_t version);

  // ---- In a world of hosts.
  /// Orders of an older generation are ignored. A new one hands on everything that is here.
  void Follow(const v1::RelayOrders& orders);
  void ForgetJobs(const v1::RelayForget& forget);
  v1::RelayReport Report() const;

  /// Leases as they were given, whatever the table says of them, and the segments that are there.
  const std::map<std::string, LeaseGiven>& given() const { return given_; }
  std::set<std::string> segments() const;

 private:
  void Take(const std::string& job, uint64_t version, Memory content,
            const std::vector<uint64_t>& keep);
  absl::Status Finish(const std::string& segment_id);
  void Dispose(const std::vector<relay::RetiredSegment>& retired);
  void Expire();
  bool alive() const;
  void MakeTable();
  bool IsNext(const SimulatedRelay& other, const std::string& job) const;

  World& world_;
  const ProcessId process_;
  const int keep_;                                     // 1 or 2
  std::optional<relay::SegmentTable> table_;           // made anew when the process is
  std::map<std::string, Mapping> memory_;              // by segment id
  std::vector<Mapping> free_;                          // to be written again
  std::map<std::string, std::vector<uint64_t>> kept_;  // by job: what its last Begin asked for
  std::map<std::string, LeaseGiven> given_;
  std::map<std::string, v1::RelayOrder> orders_;  // by job
};

}  // namespace baton::simulation

#endif  // BATON_TESTS_SIMULATION_WORLD_SIMULATED_RELAY_H_
