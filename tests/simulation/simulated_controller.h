// What controller/runtime does around the real cores, in virtual time: strands, turns, sessions,
// disk. Thin on purpose: each function names the one of the runtime that it mirrors, so that the
// two can be read side by side. Whatever is decided here is not proved by the simulator.
#ifndef BATON_TESTS_SIMULATION_SIMULATED_CONTROLLER_H_
#define BATON_TESTS_SIMULATION_SIMULATED_CONTROLLER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/core/cluster_core.h"
#include "controller/core/job_core.h"
#include "tests/simulation/world.h"

namespace baton::simulation {

controller::JobCoreOptions SimulatedDeadlines();

class SimulatedController {
 public:
  using Answer = std::function<void(absl::StatusOr<v1::Job::State>)>;

  explicit SimulatedController(World* world) : world_(*world) {}
  /// Controller::Restore, then ticks.
  void Restore();

  // Streams.
  void OnMessage(uint64_t stream, WorkerMessage message);
  void OnClosed(uint64_t stream);

  // Calls of clients and workers.
  void Create(const JobPlan& plan, const std::string& request_id, const Answer& done);
  void Steer(const std::string& job, const controller::Event& event, const Answer& done);
  void Get(const std::string& job, const Answer& done);
  void Drain(const std::string& worker);
  void Undrain(const std::string& worker);
  void FetchBatch(const std::string& job, const std::string& batch,
                  const std::function<void(absl::StatusOr<std::vector<Payload>>)>& done);

  uint64_t epoch() const { return epoch_; }
  /// State and phase of a job, for coverage; nothing: unknown.
  std::optional<std::pair<v1::Job::State, std::string>> Where(const std::string& job) const;
  /// Whether the job waits for what a worker does with that token.
  bool Wants(const std::string& job, const std::string& worker, const std::string& token) const;
  /// What runs on the pools of a job, judged when something begins there.
  void CheckTurns(const std::string& job);
  /// Rules that hold at any time; called after every event.
  void CheckJobs();

 private:
  struct Turn {
    controller::Effects effects;
    v1::Job::State state = v1::Job::STATE_QUEUED;
    bool committed = false;
    std::function<void()> after;
    std::vector<controller::TaskRef> stored;  // results whose rows are in this turn
  };
  struct Job {
    std::string name;
    int64_t order = 0;
    int priority = 0;
    std::unique_ptr<controller::JobCore> core;
    std::vector<controller::RolePool> pools;  // that roles share
    std::deque<Turn> turns;
    bool flushing = false;
    bool visible = false;
    v1::Job::State snapshot = v1::Job::STATE_QUEUED;
    absl::Time strand_last, disk_last;
    uint32_t log_file = 0;  // that payloads are appended to; 0: none yet
    std::map<uint64_t, Payload> payloads;
    std::map<uint64_t, std::pair<uint32_t, uint64_t>> partials;  // tokens, of which response
    std::string batch_id;
    std::vector<Payload> batch;
    bool changed = false;                          // since CheckJobs
    absl::Time held_since = absl::InfinitePast();  // nothing can be written since then
  };
  struct Session {
    std::string worker;
    bool welcome = false;
    std::vector<WorkerMessage> held;
  };

  void OnCluster(std::function<void()> work);
  void OnStrand(Job& job, std::function<void()> work);
  void OnDisk(Job& job, std::function<void()> work);
  void Commit(std::vector<store::Write> writes, std::function<void()> done);
  store::Durability DurabilityWith(const std::vector<store::Write>& writes);
  void PumpStore();
  void Tick();
  void Tick(Job& job);

  // Controller.
  void OnHello(uint64_t stream, const v1::Hello& hello);
  void Route(uint64_t stream, const std::string& worker, WorkerMessage message);
  void Apply(const controller::ClusterEffects& effects);
  void Back(const controller::ClusterBack& back);
  Job* FindJob(const std::string& name);
  static void NotePools(Job& job);

  // JobRuntime.
  void Run(Job& job, const controller::Event& event, std::function<void()> after = nullptr);
  void Finish(Job& job, controller::Effects effects, std::vector<store::Write> writes,
              std::function<void()> after, const controller::TaskRef* stored = nullptr);
  void Flush(Job& job);
  void Leave(Job& job, Turn& turn);
  std::vector<store::Write> RowsOf(Job& job, const controller::Effects& effects);
  void OnProgress(Job& job, const std::string& worker, const controller::TaskRef& ref,
                  const WorkerMessage& message);
  void OnResult(Job& job, const std::string& worker, const controller::TaskRef& ref,
                const Result& result);
  void StoreGenerated(Job& job, const std::string& worker, const controller::TaskRef& ref,
                      const Result& result);
  void StoreColumn(Job& job, controller::TaskDone done);
  controller::PayloadLocation Append(Job& job, const Payload& payload);
  void Refuse(Job& job, const std::string& worker, const controller::TaskRef& ref);
  void Send(const std::string& worker, ControllerMessage message);
  std::optional<Payload> ReadWhole(const Job& job, const controller::TrajectoryInfo& info);

  void Do(Job& job, const controller::StartTask& effect);
  void Do(Job& job, const controller::StopTask& effect);
  void Do(Job& job, const controller::AckResult& effect);
  void Do(Job& job, const controller::DropTrajectories& effect);
  void Do(Job& job, const controller::DropPayloads& effect);
  void Do(Job& job, const controller::LoadData& effect);
  void Do(Job& job, const controller::BuildBatch& effect);
  void Do(Job& job, const controller::CommitCheckpoint& effect);
  void Do(Job& job, const controller::PutCheckpoint&) {}
  void Do(Job& job, const controller::DeleteCheckpoint& effect);
  void Do(Job& job, const controller::EmitEvent& effect);
  void Do(Job& job, const controller::NeedWorkers& effect);
  void Do(Job& job, const controller::ReturnWorker& effect);
  void Do(Job& job, const controller::LeaveQueue& effect);
  void Do(Job&, const controller::PutJob&) {}
  void Do(Job&, const controller::PutTrajectory&) {}
  void Do(Job& job, const controller::PutMetrics& effect);
  TaskMessage MakeTask(Job& job, const controller::StartTask& effect);
  void SendTask(Job& job, const std::string& worker, TaskMessage task);

  // What the rules need.
  void CheckStart(Job& job, const controller::StartTask& task);
  void CheckCommitted(const std::vector<store::Write>& writes);
  store::v1::JobRow StoredRow(const std::string& job);
  std::vector<store::v1::TrajectoryRow> StoredTrajectories(const std::string& job);

  World& world_;
  uint64_t epoch_ = 0;
  std::unique_ptr<controller::ClusterCore> cluster_;
  absl::Time cluster_last_;
  std::map<uint64_t, Session> sessions_;
  std::map<std::string, uint64_t> directory_;  // worker -> stream
  std::map<std::string, std::unique_ptr<Job>> jobs_;
  int64_t next_order_ = 1;
  std::deque<std::pair<std::vector<store::Write>, std::function<void()>>> commits_;
  bool pumping_ = false;
};

}  // namespace baton::simulation

#endif  // BATON_TESTS_SIMULATION_SIMULATED_CONTROLLER_H_
