// A simulated world around one job, in virtual time, for tests. The job is the shipped JobRuntime.
//
// A queue, a relay, a disk and workers that answer. Everything that can happen next is under way at
// once; a seed says what does. An actor has weights (a running hash over its batches), checkpoints
// hold them, and a worker forgets what it had when it dies: so a job that ends with the weights of
// an undisturbed one lost and repeated nothing. Things that a job must never do are checked here,
// wherever they happen. tests/simulation has several jobs, a network and a queue that decides; here
// a test says what happens, event by event.
#ifndef BATON_TESTS_JOB_SIMULATED_JOB_H_
#define BATON_TESTS_JOB_SIMULATED_JOB_H_

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "controller/core/loop/job_core.h"
#include "controller/ports/fake_job_files.h"
#include "controller/runtime/job/job_runtime.h"
#include "controller/spec/dataflow/pools.h"
#include "controller/store/memory_store.h"
#include "tests/job/stepped_executors.h"
#include "tests/support/turn_digest.h"

namespace baton::controller {

/// Tests that try hundreds of worlds try every so many of them: all, but a few under a sanitizer,
/// which looks for other faults than broken rules and takes ten times as long.
#ifdef BATON_SANITIZED
inline constexpr int kStride = 5;
#else
inline constexpr int kStride = 1;
#endif

class SimulatedJob : private TurnObserver,
                     private WorkerOutbox,
                     private WorkerQueue,
                     private FakeJobFiles::Listener {
 public:
  struct Options {
    uint64_t seed = 1;
    bool sft = false;
    int steps = 5;
    std::string preset;       ///< "": the kind's default.
    std::string dataflow;     ///< Text format; "": the preset's.
    bool filter_all = false;  ///< Every batch is empty after its filters.
    int failing_percent = 0;  ///< Generations that end with Unavailable.
    int max_checkpoints = 0;
    size_t max_row_bytes = store::kMaxRowBytes;  ///< The store's bound.
    int actor_ranks = 1, actor_tp = 1;           ///< And the tensor ranks among them.
    int critic_ranks = 1, critic_tp = 1;
    int reference_ranks = 1, reference_tp = 1;  ///< A group where its tp is above 1.
    int rollout_workers = 2, generation_tp = 1;
    size_t samples = 2;                           ///< As rollout.n says.
    std::vector<std::vector<std::string>> pools;  ///< Roles that share workers.
    bool cost_critic = false;                     ///< As in preset safe_rlhf.
    bool recompute_log_prob = false;
    size_t max_queued_responses = JobCoreOptions().max_queued_responses;
    std::vector<std::string> val_sources = {"", "", "", ""};  ///< Sources of its held-out examples.
    std::map<std::string, double> more_metrics;               ///< Also in each score and update.
    /// Rewards that fail for good, for a reason of the infrastructure: of the trajectories that
    /// FailsForGood names, or of all.
    enum class Failing { kNone, kSome, kAll } failing_rewards = Failing::kNone;
    bool error_reward = false;  ///< A failed response is worth -1.
    absl::Status ahead;         ///< Status of responses that are run ahead.
    double max_error_rate = 1;
    std::vector<uint64_t> file_sizes;        ///< Prompts of the files that `edit` names: 10.
    std::function<void(v1::JobSpec*)> edit;  ///< Changes the spec before it is checked.
    /// Reward of every response of the evaluation after that step; empty: that of its sample.
    std::function<double(int64_t)> accuracy;
  };
  explicit SimulatedJob(const Options& options);
  ~SimulatedJob() override;

  /// Lets one thing happen that is under way. False: nothing is.
  bool Step();
  /// Steps until the job has ended, or nothing is under way.
  void RunToEnd();
  /// Sends an event of a worker, the queue or a user; a TaskDone as the worker's result.
  void Send(const Event& event);

  /// The worker dies, and what it runs and knows with it.
  void Lose(const std::string& worker);
  void LoseOneOf(const std::string& role);
  void LoseSomeWorker();
  /// The worker's stream breaks: it hears nothing until it is back, and works on.
  void BreakStream(const std::string& worker);
  void BreakSomeStream();
  /// The relay dies and returns empty.
  void LoseRelay() { relay_.clear(); }
  /// The controller dies and returns with its rows. `dying_percent` of its workers die with it.
  void Restart(int dying_percent);
  /// Some result arrives a second time.
  void RepeatAResult();

  bool ended() const { return IsTerminal(core_->state()); }
  const JobCore& core() const { return *core_; }
  absl::Time now() const { return executors_.Now(); }
  void Wait(absl::Duration time) { executors_.Advance(time); }
  /// step -> ids of the batch that trained it last.
  const std::map<int64_t, std::vector<uint64_t>>& trained() const { return trained_; }
  /// Weights of all roles in the checkpoint of the last step, in one number.
  uint64_t FinalWeights() const;
  const std::set<int64_t>& evaluated() const { return evaluated_; }
  /// Complete checkpoints: step -> role -> weights.
  const std::map<int64_t, std::map<std::string, uint64_t>>& disk() const { return disk_; }
  /// Tasks of that kind under way.
  std::vector<TaskDone> UnderWay(TaskKind kind) const;
  /// Takes them away: they will never answer.
  void Swallow(TaskKind kind);
  /// Every StopTask so far.
  const std::vector<StopTask>& stopped() const { return stopped_; }
  /// The drafts that generations were sent with.
  const std::map<TaskRef, std::vector<int32_t>>& drafts() const { return drafts_; }
  /// Every response that was asked for ahead of need.
  const std::map<TaskRef, StartAhead>& ahead() const { return ahead_; }
  /// How often each of those responses was stopped, by prompt index and sample.
  const std::map<std::pair<uint64_t, uint32_t>, int>& ahead_stopped() const {
    return ahead_stopped_;
  }
  bool InQueue() const { return !needs_.empty(); }
  /// As it was written last, without what never changes (the spec).
  const store::v1::JobRow& row() const {
    ReadRow();
    return row_;
  }
  /// The next controller (Restart) reads a test's changes of the row.
  store::v1::JobRow& mutable_row() {
    ReadRow();
    return row_;
  }
  /// Whether no worker can compute the trajectory's reward (Failing::kSome).
  static bool FailsForGood(const TrajectoryInfo& t);
  /// Messages of the events of type warning.
  const std::vector<std::string>& warnings() const { return warnings_; }
  /// Metrics of the newest step and of the newest evaluation.
  const std::map<std::string, double>& metrics() const { return metrics_; }
  /// Every event that watchers got and that is kept, in order.
  const std::vector<v1::JobEvent>& events() const { return events_; }
  /// Trajectory rows by serial. The next controller (Restart) reads a test's changes of them.
  std::map<uint64_t, store::v1::TrajectoryRow>& rows() { return rows_; }
  /// Rows of batches by step.
  const std::map<int64_t, store::v1::BatchRow>& batch_rows() const { return batch_rows_; }

 private:
  struct Draws {  // SplitMix64
    uint64_t state;
    uint64_t operator()() {
      uint64_t z = (state += 0x9e3779b97f4a7c15ull);
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
      return z ^ (z >> 31);
    }
  };
  struct Actor {
    uint32_t rank = 0;
    uint64_t weights = 0;
    uint64_t group_epoch = 0;
    uint64_t sequence = 0;  // of the last command
    TaskKind kind = TaskKind::kUpdate;
    uint64_t version = 0;
  };
  // The job runtime's side (simulated_job_turns.cc).
  void OnResult(const JobCore&, const std::string&, const TaskRef&,
                const v1::TaskResult&) override {}
  void OnEvent(const JobCore& core, const Event& event) override;
  void OnTurn(const JobCore& core, const Effects& effects) override;
  void OnEffect(const JobCore& core, const Effect& effect) override;
  void OnCluster(const ClusterEffects&) override {}
  void Send(const std::string& worker, v1::ControllerMessage message) override;
  bool HasFeature(const std::string&, const std::string&) const override { return true; }
  std::string GroupStoreOf(const std::string& worker) const override { return worker; }
  void Need(const std::string&, const NeedWorkers& need) override { needs_ = need.missing; }
  void Return(const std::string&, const ReturnWorker& effect) override { Forget(effect.worker); }
  void Publishes(const std::string&, const std::string&) override {}
  void Leave(const std::string&) override { needs_.clear(); }
  void Quarantine(const std::string&) override { needs_.clear(); }
  void OnCommitted(int64_t step, uint64_t incarnation) override;
  void OnDeleted(int64_t step) override { disk_.erase(step); }
  void See(const StartTask& effect) { leaving_[{effect.worker, effect.ref}] = effect; }
  void See(const StartAhead& effect) { ahead_[effect.ref] = effect; }
  void See(const PutJob&) { row_changed_ = true; }
  void See(const PutTrajectory& effect);
  void See(const DropTrajectories& effect);
  void See(const PutBatch& effect);
  void See(const DropBatches& effect);
  void See(const BuildBatch& effect);
  void See(const CommitCheckpoint& effect);
  void See(const EmitEvent& effect);
  void See(const PutMetrics& effect);
  template <typename T>
  void See(const T&) {}

  void ExpectFresh(const store::v1::TrajectoryRow& row,
                   const store::v1::TrajectoryRow& first) const;
  /// All that is not slow runs; then what stands is checked.
  void Settle();
  void ReadRow() const;
  RuntimeContext MakeContext();
  v1::TaskResult ResultOf(const TaskDone& done) const;

  // The workers' side (simulated_job.cc).
  void Stop(const StopTask& stop);
  void Start(const StartTask& start);
  void RunAhead(const StartAhead& start);
  void CheckAhead(const StartAhead& start) const;
  /// The worker has foreground work, and stops what it runs ahead.
  void StopAhead(const std::string& worker);
  bool Hears(const std::string& worker) const;
  void Score(const StartTask& start, TaskDone& done);
  void Assign(const StartTask& start);
  void Command(const StartTask& start);
  void Publish(const TaskArgs& args, uint64_t weights);
  bool Hybrid() const { return IsHybrid(core_->effective_spec(), core_->dataflow()); }
  /// A role that works on a shared pool works alone.
  void CheckTurn(const StartTask& start) const;
  void ComeBack(const std::string& worker);
  void FinishLoading(const TaskDone& done);
  void Forget(const std::string& worker);
  bool Eligible(const Event& event) const;
  /// Whether the ranks of a group come together over a task of one of them.
  enum class Meeting { kMet, kWaits, kBroken };
  Meeting MeetingOf(const TaskDone& done) const;
  std::string SomeWorker();
  void CheckWaits();
  /// Ranks of the groups; other roles: 1.
  int RanksOfRole(const std::string& role) const {
    return role == "actor"                                    ? options_.actor_ranks
           : role == "critic"                                 ? options_.critic_ranks
           : role == "reference" && options_.reference_tp > 1 ? options_.reference_ranks
                                                              : 1;
  }
  int TensorRanksOf(const std::string& role) const {
    return role == "actor"       ? options_.actor_tp
           : role == "critic"    ? options_.critic_tp
           : role == "reference" ? options_.reference_tp
                                 : 1;
  }

  const Options options_;
  Draws random_;
  SteppedExecutors executors_;
  mutable store::MemoryStore store_;  // reading it is not const
  FakeJobFiles files_;
  RuntimeContext context_;
  std::shared_ptr<JobRuntime> job_;
  const JobCore* core_ = nullptr;     // of job_
  mutable bool row_changed_ = false;  // since it was read
  mutable store::v1::JobRow row_;
  std::map<uint64_t, store::v1::TrajectoryRow> rows_;
  std::map<int64_t, store::v1::BatchRow> batch_rows_;
  // Tasks that the job has started and not sent yet: their turn is being committed, or the payload
  // that they carry is being read.
  std::map<std::pair<std::string, TaskRef>, StartTask> leaving_;
  std::vector<Event> pending_;
  std::vector<StopTask> stopped_;
  std::map<TaskRef, std::vector<int32_t>> drafts_;
  std::map<TaskRef, StartAhead> ahead_;
  std::map<std::pair<uint64_t, uint32_t>, int> ahead_stopped_;
  std::map<std::string, int> needs_;
  std::map<std::string, std::string> alive_;  // worker -> roles, joined by "+"
  std::set<std::string> away_;
  std::map<std::pair<std::string, std::string>, Actor> actors_;  // by worker and role
  // Tasks for which ranks meet, their epochs, and who was in one: (role, group epoch).
  std::map<std::pair<std::string, TaskRef>, std::pair<std::string, uint64_t>> meets_;
  std::map<std::pair<std::string, uint64_t>, std::set<std::string>> members_;
  std::map<std::string, uint64_t> versions_;                     // of rollouts
  std::map<std::pair<std::string, TaskRef>, uint64_t> loading_;  // version that the task loads
  std::map<uint64_t, uint64_t> relay_;                           // version -> weights
  std::map<uint64_t, uint64_t> published_;                       // ever
  // (step, incarnation) -> role -> weights
  std::map<std::pair<int64_t, uint64_t>, std::map<std::string, uint64_t>> staged_;
  std::map<int64_t, std::map<std::string, uint64_t>> disk_;  // step -> role -> weights
  std::map<int64_t, std::vector<uint64_t>> trained_;
  std::map<int64_t, std::vector<uint64_t>> batches_;  // built, by step
  std::map<int64_t, uint64_t> contents_;              // hashes of their columns, in one number
  std::set<int64_t> evaluated_;
  std::vector<v1::JobEvent> events_;
  std::vector<std::string> warnings_;
  std::map<std::string, double> metrics_;
  int next_worker_ = 0;
  const char* const turns_file_ = std::getenv("BATON_TURNS_FILE");
  TurnDigest turns_;
};

/// Adds a value to a running hash.
inline uint64_t MixInto(uint64_t hash, uint64_t value) {
  return (hash ^ value) * 0x9e3779b97f4a7c15ull + (hash >> 29);
}

/// A job of these options, its spec checked, as the controller admits it.
v1::Job MakeSimulatedJob(const SimulatedJob::Options& options);

}  // namespace baton::controller

#endif  // BATON_TESTS_JOB_SIMULATED_JOB_H_
