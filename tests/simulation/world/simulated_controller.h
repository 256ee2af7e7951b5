// A controller in virtual time: the shipped JobRuntime of every job, ClusterRuntime and JobRestorer
// on simulated ports. A job is made here without what Controller checks of its files and of
// requests that are repeated; those have tests of their own.
#ifndef BATON_TESTS_SIMULATION_WORLD_SIMULATED_CONTROLLER_H_
#define BATON_TESTS_SIMULATION_WORLD_SIMULATED_CONTROLLER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "controller/runtime/cluster/cluster_runtime.h"
#include "controller/runtime/cluster/job_table.h"
#include "controller/runtime/job/job_runtime.h"
#include "tests/simulation/world/simulated_ports.h"
#include "tests/simulation/world/turn_rules.h"
#include "tests/simulation/world/world.h"

namespace baton::simulation {

controller::JobCoreOptions SimulatedDeadlines();

class SimulatedController {
 public:
  using Answer = std::function<void(absl::StatusOr<v1::Job::State>)>;

  /// Takes over the store and restores its jobs; then it ticks. No call reaches a controller that
  /// has not restored its jobs, as no port is open before.
  explicit SimulatedController(World* world);

  // Streams.
  void OnMessage(uint64_t stream, v1::WorkerMessage message);
  void OnClosed(uint64_t stream);

  // Calls of clients and workers.
  void Create(const JobPlan& plan, const std::string& request_id, const Answer& done);
  void Steer(const std::string& job, const controller::Event& event, const Answer& done);
  void Get(const std::string& job, const Answer& done);
  void Drain(const std::string& worker);
  void Undrain(const std::string& worker);
  void FetchBatch(const v1::FetchBatchRequest& request,
                  const controller::Callback<controller::BatchPart>& done);

  uint64_t epoch() const { return context_.epoch; }
  /// State and phase of a job, for coverage; nothing: unknown.
  std::optional<std::pair<v1::Job::State, std::string>> Where(const std::string& job) const;
  TurnRules& rules() { return rules_; }

  /// The controller dies between two of its next calls to the world, and takes no part in it from
  /// there on.
  void DieAfter(uint64_t calls) { calls_.DieAfter(calls); }
  bool dead() const { return calls_.dead(); }
  /// The controller is stopping: its store answers every commit that it has not written with an
  /// error.
  void ShutDown() { store_.ShutDown(); }

 private:
  class Stream;

  void Restore();
  void Tick();

  World& world_;
  PortCalls calls_;
  SimulatedClock clock_;
  SimulatedExecutors executors_;
  SimulatedStore store_;
  SimulatedFiles files_;
  TurnRules rules_;
  controller::RuntimeContext context_;
  controller::JobTable jobs_;
  std::unique_ptr<controller::ClusterRuntime> cluster_;
  std::map<uint64_t, std::unique_ptr<controller::WorkerSession>> sessions_;  // by stream
};

}  // namespace baton::simulation

#endif  // BATON_TESTS_SIMULATION_WORLD_SIMULATED_CONTROLLER_H_
