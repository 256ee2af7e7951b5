// A controller in virtual time: the shipped JobRuntime of every job on simulated ports, and the
// real ClusterCore. Between them stand the sessions of controller/runtime/controller*.cc, written
// again for one thread: each function here names the one that it mirrors.
#ifndef BATON_TESTS_SIMULATION_SIMULATED_CONTROLLER_H_
#define BATON_TESTS_SIMULATION_SIMULATED_CONTROLLER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/core/cluster_core.h"
#include "controller/runtime/job_runtime.h"
#include "tests/simulation/simulated_ports.h"
#include "tests/simulation/turn_rules.h"
#include "tests/simulation/world.h"

namespace baton::simulation {

controller::JobCoreOptions SimulatedDeadlines();

class SimulatedController : private controller::WorkerOutbox, private controller::WorkerQueue {
 public:
  using Answer = std::function<void(absl::StatusOr<v1::Job::State>)>;

  explicit SimulatedController(World* world);
  /// Controller::Restore, then ticks.
  void Restore();

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

  /// It dies between two of its next calls to the world, and takes no part in it from there on.
  void DieAfter(uint64_t calls) { calls_.DieAfter(calls); }
  bool dead() const { return calls_.dead(); }
  /// It is stopping: its store answers every commit that it has not written with an error.
  void ShutDown() { store_.ShutDown(); }

 private:
  using Runtime = std::shared_ptr<controller::JobRuntime>;
  struct Job {
    int64_t order = 0;
    Runtime runtime;
  };
  struct Session {
    std::string worker;
    bool welcome = false;
    std::vector<v1::WorkerMessage> held;
  };

  // Ports of the jobs.
  void Send(const std::string& worker, v1::ControllerMessage message) override;
  bool Promises(const std::string& worker, const std::string& feature) const override;
  std::string GroupStoreOf(const std::string& worker) const override;
  void Need(const std::string& job, const controller::NeedWorkers& need) override;
  void Return(const std::string& job, const controller::ReturnWorker& worker) override;
  void Leave(const std::string& job) override;

  // Controller.
  void OnCluster(std::function<void()> work);
  void Tick();
  void OnHello(uint64_t stream, const v1::Hello& hello);
  void OnHeartbeat(uint64_t stream, const std::string& worker, uint64_t sequence);
  void Route(uint64_t stream, const std::string& worker, v1::WorkerMessage message);
  void OnResult(uint64_t stream, const std::string& worker, v1::TaskResult result);
  void Apply(const controller::ClusterEffects& effects);
  void Apply(const controller::ClusterWelcome& welcome);
  void Apply(const controller::ClusterRefuse& refuse);
  void Apply(const controller::ClusterGrant& grant);
  void Apply(const controller::ClusterLost& lost);
  void Apply(const controller::ClusterYield& yield);
  void Apply(const controller::ClusterBack& back);
  Runtime FindJob(const std::string& name) const;
  Runtime FindJobOf(const controller::TaskToken& token) const;
  void RestoreJob(const store::Row& stored);

  World& world_;
  PortCalls calls_;
  SimulatedClock clock_;
  SimulatedExecutors executors_;
  SimulatedStore store_;
  SimulatedFiles files_;
  TurnRules rules_;
  controller::RuntimeContext context_;
  std::unique_ptr<controller::ClusterCore> cluster_;
  absl::Time cluster_last_;
  std::map<uint64_t, Session> sessions_;
  std::map<std::string, uint64_t> directory_;  // worker -> stream
  std::map<std::string, v1::Hello> offers_;    // by worker
  std::map<std::string, Job> jobs_;
  int64_t next_order_ = 1;
};

}  // namespace baton::simulation

#endif  // BATON_TESTS_SIMULATION_SIMULATED_CONTROLLER_H_
