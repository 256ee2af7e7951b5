// A worker process as sdk/worker and the fake engine make one: session, lease, ledger, sequencer,
// roles. Its weights are a number (model.h); what it holds dies with it.
#ifndef BATON_TESTS_SIMULATION_WORLD_SIMULATED_WORKER_H_
#define BATON_TESTS_SIMULATION_WORLD_SIMULATED_WORKER_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/runtime/payloads/batch_part.h"
#include "tests/simulation/world/simulated_relay.h"
#include "tests/simulation/world/world.h"

namespace baton::simulation {

class SimulatedWorker {
 public:
  /// `said_id`: what it says in Hello.
  SimulatedWorker(World* world, size_t index, const std::string& said_id, std::string project,
                  std::vector<std::string> roles, bool foreign);

  /// The process begins, with nothing in it.
  void Boot();
  void OnMessage(uint64_t stream, v1::ControllerMessage message);
  void OnStreamEnded(uint64_t stream);

  /// In a world of hosts: it is what attaches a relay to the controller.
  bool IsRelay() const { return roles_ == std::vector<std::string>{"relay"}; }
  /// Its relay has other versions than before.
  void ReportRelay();

  /// The worker's name in the controller.
  const std::string& id() const { return id_; }
  /// Project of its token.
  const std::string& project() const { return project_; }
  ProcessId process() const { return process_; }
  uint64_t stream() const { return stream_; }
  uint64_t epoch_seen() const { return epoch_; }
  bool Holds(const std::string& job) const;
  /// … in that role, as a rank of that epoch of its group.
  bool HoldsRank(const std::string& job, const std::string& role, uint64_t group_epoch) const;
  absl::Time lease_end() const { return lease_end_; }
  /// Tokens of a job's tasks that have begun and not ended, with what they are.
  std::map<std::string, TaskAtWork> AtWork(const std::string& job) const;
  void SetSlow(absl::Time until) { slow_until_ = until; }
  void SetFailing(absl::Time until) { failing_until_ = until; }

 private:
  struct Held {
    std::string job;
    uint64_t group_epoch = 0;
    uint32_t rank = 0;
    v1::JobSpec spec;
    ActorState state;                    // an actor's; of a rollout the version it holds
    bool hybrid = false;                 // an actor's: a rollout of this worker samples with …
    std::optional<ActorState> sampling;  // … these, since to_generation
    bool updated = false;
    bool published = false;   // since it was assigned
    uint64_t publishing = 0;  // version begun last
    std::vector<std::string> published_segments;
  };
  struct Running {
    TaskMessage task;
    uint64_t context = 0;  // tells it from one of the same token that came later
    bool started = false;
    std::vector<std::pair<uint32_t, uint32_t>> chunks;  // sent progress
    uint64_t content = 0;
    uint32_t done = 0;      // tokens of its response
    int64_t accepted = -1;  // of its draft
  };
  struct Group {
    uint64_t group_epoch = 0, next = 0, done = 0;
    uint64_t running = 0;               // context
    std::map<uint64_t, uint64_t> held;  // sequence -> context
  };
  using Key = std::pair<std::string, std::string>;  // job, role

  void Connect();
  void Accept(const v1::Welcome& welcome);
  void Renew(const v1::HeartbeatAck& ack);
  void Heartbeat(uint64_t stream);
  void WatchLease();
  void Fence();
  void Disconnect();
  void Dispatch(const v1::Task& task);
  void Offer(uint64_t context, const TaskMessage& task);
  void StartNext(Group& group);
  void Launch(uint64_t context);
  void Start(uint64_t context);
  /// Runs `work` later if the task still runs then.
  void Later(uint64_t context, absl::Duration delay, std::function<void(Running&)> work);
  void Finish(uint64_t context, Result result);
  void SendResult(const std::string& token);
  void SendProgress(const Running& running, uint32_t offset, uint32_t count);
  Running* Find(uint64_t context);
  Held* HeldFor(const TaskMessage& task);
  absl::Duration Work(int low_ms, int high_ms);
  /// … of a token or a score of that job.
  absl::Duration WorkOf(const std::string& job, int low_ms, int high_ms);

  void Assign(uint64_t context);
  void Release(uint64_t context);
  void LoadWeights(uint64_t context, absl::Time give_up);
  void Read(uint64_t context, uint64_t relay_life, SimulatedRelay::Loading loading);
  void Generate(uint64_t context);
  bool Sample(uint64_t context);
  void RunAhead(uint64_t context);
  void NextAheadToken(uint64_t context, uint32_t done);
  /// Stops run-ahead work: there is foreground work.
  void StopAhead();
  void NextToken(uint64_t context, uint32_t done);
  void Score(uint64_t context);
  bool MissesARank(const TaskMessage& task, const Held& held) const;
  void Update(uint64_t context);
  void Fetch(uint64_t context);
  std::vector<Payload> ReadBatch(const std::vector<v1::Trajectory>& batch);
  void Apply(uint64_t context, const std::vector<Payload>& batch);
  void TakeBack(const std::string& job);
  void LetGo(const std::string& job, const std::string& role);
  void CancelGenerations(const std::string& job, const std::string& why);
  ActorState* SamplingOf(const TaskMessage& task);
  void ToGeneration(uint64_t context);
  void Publish(uint64_t context, absl::Time give_up);
  void Seal(uint64_t context, const std::string& segment, absl::Time give_up);
  void Again(uint64_t context, absl::Time give_up, const absl::Status& status);
  void Save(uint64_t context);

  World& world_;
  const size_t index_;
  const std::string id_, said_id_, project_;
  const std::vector<std::string> roles_;
  const v1::Hello offer_;  // methods and features
  const ProcessId process_;
  absl::Time slow_until_, failing_until_;
  std::set<std::string> failed_;

  // State of the process.
  std::string instance_;
  uint64_t stream_ = 0;
  bool attached_ = false;
  uint64_t epoch_ = 0;
  absl::Time hello_sent_;
  absl::Time lease_end_ = absl::InfinitePast();
  std::map<uint64_t, absl::Time> heartbeats_;
  uint64_t next_heartbeat_ = 1;
  uint64_t next_context_ = 1;
  absl::Duration backoff_;
  std::map<std::string, Held> held_;         // by role
  std::map<std::string, uint64_t> running_;  // token -> context
  std::map<uint64_t, Running> contexts_;
  std::map<std::string, v1::TaskResult> results_;  // not acknowledged
  std::map<Key, Group> groups_;
  std::map<std::string, std::deque<uint64_t>> exclusive_;  // by role; the first one runs
};

}  // namespace baton::simulation

#endif  // BATON_TESTS_SIMULATION_WORLD_SIMULATED_WORKER_H_
