// Rules of a job's turns, checked where the shipped JobRuntime can be observed, and where its
// messages leave.
#ifndef BATON_TESTS_SIMULATION_WORLD_TURN_RULES_H_
#define BATON_TESTS_SIMULATION_WORLD_TURN_RULES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/core/loop/job_core.h"
#include "controller/ports/turn_observer.h"
#include "controller/spec/dataflow/pools.h"
#include "tests/simulation/rules/recount_rules.h"
#include "tests/simulation/world/world.h"

namespace baton::simulation {

/// The rules of one controller's life. Holds the cores of its jobs, which live as long.
class TurnRules : public controller::TurnObserver {
 public:
  using Shown = std::function<v1::Job::State(const std::string& job)>;
  using Held = std::function<std::vector<uint64_t>(const std::string& job)>;
  /// `shown` answers the state that callers see of a job, `held` JobRuntime::HeldPayloads.
  TurnRules(World* world, Shown shown, Held held)
      : world_(*world), shown_(std::move(shown)), held_(std::move(held)) {}

  void OnResult(const controller::JobCore& core, const std::string& worker,
                const controller::TaskRef& ref, const v1::TaskResult& result) override;
  void OnEvent(const controller::JobCore& core, const controller::Event& event) override;
  void OnTurn(const controller::JobCore& core, const controller::Effects& effects) override;
  void OnEffect(const controller::JobCore& core, const controller::Effect& effect) override;
  void OnCluster(const controller::ClusterEffects& effects) override;

  /// A message leaves for a worker.
  void OnSend(const std::string& worker, const v1::ControllerMessage& message);

  /// The core of a job that has started; null: none has.
  const controller::JobCore* CoreOf(const std::string& job) const;
  /// Whether the job waits for the worker's task with that token.
  bool Wants(const std::string& job, const std::string& worker, const std::string& token) const;
  /// Checks the tasks that run on the pools of a job, whenever one begins there.
  void CheckTurns(const std::string& job);
  /// Rules that hold at any time; called after every event.
  void CheckJobs();

 private:
  struct Job {
    const controller::JobCore* core = nullptr;
    std::vector<controller::RolePool> pools;      // that roles share
    uint64_t next_trajectory_uid = 0;             // the first uid that this controller gives
    bool changed = false;                         // since CheckJobs
    int64_t told = 0;                             // revision of the last event that left
    const controller::TaskRef* taking = nullptr;  // the result that is being handled
    std::string worker;                           // … of whom
    std::set<controller::TaskRef> asked;          // all tasks that this controller sent
    std::optional<controller::TaskDone> done;     // … if it generates or scores
    Tries tries;                                  // … counted until then
    /// Results with rows of their own: their acks wait for these.
    std::set<std::pair<controller::TaskRef, std::string>> taken;
    std::set<uint64_t> lost;  ///< Trajectories whose payload was lost, and their row with it.
    /// Responses and scores that came while the job waited for them, until it takes them in or
    /// loses their worker: these may not be thrown away.
    std::set<std::pair<controller::TaskRef, std::string>> awaited;
  };

  void See(const controller::JobCore& core, const controller::StartTask& task);
  void See(const controller::JobCore& core, const controller::StartAhead& start);
  void See(const controller::JobCore& core, const controller::StopTask& stop);
  void See(const controller::JobCore& core, const controller::BuildBatch& batch);
  void See(const controller::JobCore& core, const controller::EmitEvent& emit);
  void See(const controller::JobCore& core, const controller::ReturnWorker& worker);
  void See(const controller::JobCore& core, const controller::PutMetrics& metrics);
  template <typename T>
  void See(const controller::JobCore& /*core*/, const T& /*effect*/) {}
  void OnAck(const std::string& worker, const std::string& token);
  static bool WorkIsOver(const store::v1::JobRow& row, uint64_t trajectory_uid);
  bool IsStored(const Job& job, const controller::TaskRef& ref);

  World& world_;
  const Shown shown_;
  const Held held_;
  std::map<std::string, Job> jobs_;
};

/// The job of a token; tokens on the wire name it with its uid.
std::string JobOfToken(const controller::TaskToken& token);

}  // namespace baton::simulation

#endif  // BATON_TESTS_SIMULATION_WORLD_TURN_RULES_H_
