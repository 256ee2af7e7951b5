// A simulated world: the shipped JobRuntime, the real ClusterCore and rows, with simulated workers,
// relays, clients, disks and a network, in virtual time. One scenario gives one run, always the
// same.
#ifndef BATON_TESTS_SIMULATION_WORLD_WORLD_H_
#define BATON_TESTS_SIMULATION_WORLD_WORLD_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/simulation/parts/coverage.h"
#include "tests/simulation/parts/disk.h"
#include "tests/simulation/parts/faults.h"
#include "tests/simulation/parts/messages.h"
#include "tests/simulation/parts/random.h"
#include "tests/simulation/parts/scheduler.h"
#include "tests/simulation/rules/invariants.h"
#include "tests/support/turn_digest.h"

namespace baton::simulation {

class SimulatedClient;
class SimulatedController;
class SimulatedRelay;
class SimulatedWorker;

/// A worker's stream to the controller. Messages on their way in a direction that is cut are lost.
struct Stream {
  size_t worker = 0;
  uint64_t worker_life = 0;
  uint64_t controller_life = 0;
  bool cut_up = false, cut_down = false;                ///< To and from the controller.
  bool worker_knows = false, controller_knows = false;  ///< … that it ended.
  bool stale = false;             ///< Leads to a controller of an older epoch.
  absl::Time last_up, last_down;  ///< Messages keep their order.
  /// Messages on their way to the controller wait here, until the worker's next stream is heard.
  bool stuck = false;
  std::vector<v1::WorkerMessage> waiting;
};

class World {
 public:
  World(const Scenario& scenario, Coverage* coverage, bool tracing);
  ~World();

  /// Until every job has ended and nothing is left to do, or a rule is broken.
  void Run();

  /// The first rule that was broken; "" : none.
  const std::string& violation() const { return violation_; }
  const std::vector<std::string>& trace() const { return trace_; }
  uint64_t events() const { return events_; }
  /// Hash of everything that happened, to tell two runs apart.
  uint64_t fingerprint() const { return fingerprint_; }
  controller::TurnDigest& turns() { return turns_; }

  // ---- For the processes ----
  Scheduler& time() { return time_; }
  absl::Time now() const { return time_.now(); }
  Random& random() { return random_; }
  Disk& disk() { return disk_; }
  Coverage& coverage() { return *coverage_; }
  History& history() { return history_; }
  const Scenario& scenario() const { return scenario_; }
  bool tracing() const { return tracing_; }
  void Trace(const std::string& line);
  /// `wrong` empty: the rule holds.
  void Check(const char* invariant, const std::string& wrong);

  SimulatedController* controller() { return controller_.get(); }
  ProcessId controller_process() const { return controller_process_; }
  std::vector<std::unique_ptr<SimulatedWorker>>& workers() { return workers_; }
  /// By its name in the controller.
  SimulatedWorker* FindWorker(const std::string& id);
  SimulatedWorker& WorkerOf(uint64_t stream);
  SimulatedRelay& RelayOf(size_t worker);
  /// What attaches this relay to the controller; null: nothing does.
  SimulatedWorker* AgentOf(const SimulatedRelay* relay);
  std::vector<std::unique_ptr<SimulatedRelay>>& relays() { return relays_; }

  absl::Duration Delay();
  /// A number for a new stream; 0: nobody is reached.
  uint64_t Open(size_t worker);
  void SendUp(uint64_t stream, v1::WorkerMessage message);
  void SendDown(uint64_t stream, v1::ControllerMessage message);
  /// One side ends the stream; the other hears of it unless the stream is cut.
  void CloseByWorker(uint64_t stream);
  void CloseByController(uint64_t stream);
  /// A worker's call to the controller and its answer. Either may be lost, never told.
  void Call(size_t worker, std::function<void(SimulatedController&)> request);
  void Answer(size_t worker, std::function<void(SimulatedWorker&)> answer);
  bool Reaches(size_t worker) const;
  /// Somebody looks after a drained worker.
  void RestartLater(const std::string& worker);
  /// An operator takes its drain back, as often as it needs.
  void TakeBackDrain(const std::string& worker);

 private:
  void StartController();
  void KillController(absl::Duration down);
  /// The controller dies at once, between two of its next calls, or as one that was asked to stop.
  void EndController(absl::Duration down, bool cuts_power);
  void EndIfDead();
  void CutPower();
  void KillWorker(size_t worker, absl::Duration down);
  void KillRelay(size_t relay, absl::Duration down);
  void EndWorker(SimulatedWorker* worker, absl::Duration down);
  void EndRelay(SimulatedRelay* relay, absl::Duration down);
  void Strike(const Fault& fault);
  void StrikeWorker(const Fault& fault, size_t worker);
  void DeliverUp(uint64_t stream, const v1::WorkerMessage& message);
  /// The worker is cut off and attaches anew. Its earlier messages arrive late.
  void LeaveBehind(uint64_t stream);
  void Release(uint64_t stream);
  /// Cuts a stream in both directions, or in one; each side finds out for itself.
  void Cut(uint64_t stream, bool up, bool down, absl::Duration worker_hears,
           absl::Duration controller_hears);
  uint64_t StreamOf(size_t worker) const;
  void WorkerHears(uint64_t stream, absl::Duration after);
  void ControllerHears(uint64_t stream, absl::Duration after);
  bool Done() const;
  void CheckEnd();

  const Scenario scenario_;
  Coverage* const coverage_;
  const bool tracing_;
  Scheduler time_;
  Random random_;
  Disk disk_;
  History history_;
  std::vector<std::string> trace_;
  std::string violation_;
  uint64_t events_ = 0;
  uint64_t fingerprint_ = 0;
  controller::TurnDigest turns_;

  ProcessId controller_process_ = 0;
  std::unique_ptr<SimulatedController> controller_;
  std::vector<std::unique_ptr<SimulatedWorker>> workers_;
  std::vector<std::unique_ptr<SimulatedRelay>> relays_;
  std::vector<std::unique_ptr<SimulatedClient>> clients_;
  std::map<uint64_t, Stream> streams_;
  uint64_t next_stream_ = 1;
  std::vector<uint64_t> newest_heard_;  // by worker: its newest stream that the controller heard
  std::vector<absl::Time> unreachable_until_, stale_until_;
  absl::Time slow_network_until_, repeats_until_;
  int refusals_ = 0;    // of the store, under way
  int full_disks_ = 0;  // likewise
  int crowds_ = 0;      // likewise, Disk::crowded
  struct Dying {
    absl::Duration down;
    bool cuts_power = false;
  };
  std::optional<Dying> dying_;  // the controller, soon
  size_t faults_left_ = 0;
};

}  // namespace baton::simulation

#endif  // BATON_TESTS_SIMULATION_WORLD_WORLD_H_
