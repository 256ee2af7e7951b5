// Events that happen to a job, and effects that it wants carried out. Plain data.
#ifndef BATON_CONTROLLER_CORE_JOB_EVENTS_H_
#define BATON_CONTROLLER_CORE_JOB_EVENTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "baton/store/v1/rows.pb.h"
#include "baton/v1/job_service.pb.h"
#include "controller/cluster/worker_exchange.h"
#include "controller/core/job/file_ranges.h"
#include "controller/core/job/metric_names.h"
#include "controller/core/job/task.h"
#include "controller/core/job/task_output.h"
#include "controller/core/job/trajectory.h"

namespace baton::controller {

// ---- Events -------------------------------------------------------------------------------

/// The queue gave the job a worker for a worker slot.
struct WorkerGranted {
  std::string worker;
  std::string roles;                   ///< Roles of the worker slot, as in NeedWorkers.
  std::map<std::string, int> credits;  ///< Of each role's main method; 1 if not set.
};
/// A worker is gone: its lease ran out, its process was replaced, or it was drained.
struct WorkerLost {
  std::string worker;
  std::string reason;
  bool moves = false;  ///< The worker lives, and gets another worker slot of this job next.
};
/// A worker re-attached within its lease: the same process.
struct WorkerReconnected {
  std::string worker;
  /// The roles that it holds, with the versions of their weights; empty: it fenced itself.
  std::map<std::string, uint64_t> holds;
  std::vector<TaskRef> running;  ///< Tasks that it still runs.
  std::vector<TaskRef> unacked;  ///< Results that it is about to send.
};
/// Replaces what the queue said of the relays of the job's hosts.
struct RelaysSeen {
  RelayView relays;
};
/// The data files were read and the model was found (or not).
struct DataLoaded {
  absl::Status status;
  uint64_t train_size = 0, val_size = 0;
  std::vector<std::string> val_sources;    ///< One per validation prompt.
  std::vector<uint64_t> train_file_sizes;  ///< Prompts; used only with data.train_mix.
  SourceSeries train_sources;              ///< Of the training prompts.
};
/// The data files were not read, because other jobs' data fill the memory.
struct DataWaits {
  std::string reason;  ///< "room for …", and when it comes.
};
/// More response tokens are known.
struct TaskProgressed {
  std::string worker;
  TaskRef ref;
  uint32_t tokens = 0;  ///< Known so far.
};
/// An update got further. Only what people see of the job depends on it.
struct UpdateProgressed {
  std::string worker;
  TaskRef ref;
  uint32_t done = 0, total = 0;  ///< Micro-batches of the worker's rank; 0 < total, done <= total.
};
struct TaskDone {
  std::string worker;
  TaskRef ref;
  absl::Status status;
  TaskOutput output;
  bool role_lost = false;  ///< `status` is ROLE_NOT_HELD: the worker does not hold the role.
};
/// The batch of BuildBatch is built and can be fetched.
struct BatchBuilt {
  absl::Status status;
  int64_t step = 0;
  uint64_t incarnation = 0;
  uint32_t size = 0;  ///< Trajectories left after filters.
  /// BatchEntry.column_hashes of the responses left after filters, by id.
  std::map<uint64_t, std::vector<uint64_t>> column_hashes;
  std::map<std::string, double> metrics;
  std::map<std::string, double> algorithm;  ///< BuildBatch::algorithm after this step.
  std::vector<TrajectoryInfo> replayed;     ///< Recorded::kReplay: the responses of the row.
};
/// The experience log cannot give these payloads back: they are damaged, or gone.
struct PayloadLost {
  std::map<uint64_t, uint64_t> trajectories;  ///< Id -> serial of the row that named the payload.
  std::string reason;
};
/// Payloads that the experience log has not taken yet fill their budget; if not `waits`, no longer.
struct PayloadsWait {
  bool waits = false;
  uint64_t bytes = 0, budget = 0;  ///< Bytes that wait, and that may wait.
  bool of_job = false;             ///< The budget is the job's own, not that of all jobs.
};
/// The checkpoint of CommitCheckpoint is complete (or not).
struct CheckpointCommitted {
  absl::Status status;
  uint64_t incarnation = 0;
  v1::Checkpoint checkpoint;
};
/// What DropOptimizers asked for is done.
struct OptimizersDropped {};
/// A worker reports what keeps it from its work in a role; empty: the trouble is over.
struct RoleTroubled {
  std::string worker, role, message;
};
/// The store will never take a row of the job's last turn; that turn had no other effect either.
struct RowsRefused {
  absl::Status status;
};
struct CancelRequested {};
struct PauseRequested {};
struct ResumeRequested {};
/// The queue takes all workers back: the job asks anew, and goes on from its checkpoint.
struct YieldRequested {
  std::string reason;
};
/// Time has passed; the core checks its deadlines.
struct Tick {};
/// For `duration` nothing could be written or sent; that time counts towards no deadline.
struct TimeLost {
  absl::Duration duration;
};

using Event =
    std::variant<WorkerGranted, WorkerLost, WorkerReconnected, DataLoaded, TaskProgressed, TaskDone,
                 BatchBuilt, CheckpointCommitted, CancelRequested, PauseRequested, ResumeRequested,
                 YieldRequested, Tick, TimeLost, PayloadLost, RoleTroubled, PayloadsWait,
                 RowsRefused, DataWaits, UpdateProgressed, RelaysSeen, OptimizersDropped>;

// ---- Effects ------------------------------------------------------------------------------

/// Arguments of a task beside its reference; the runtime adds texts and tokens.
struct TaskArgs {
  std::string role;
  std::string method;
  uint64_t group_epoch = 0, sequence = 0;  ///< Group commands.
  uint32_t rank = 0;                       ///< In the group of a role that trains.
  absl::Duration deadline = absl::InfiniteDuration();
  uint64_t policy_version = 0;
  // assign_role: the worker of rank 0, where ranks meet, and where to start from.
  std::string first_worker;
  int64_t checkpoint_step = -1;  ///< -1: spec.model.
  bool hybrid = false;           ///< An actor that generates, or a rollout on its worker.
  // generate and score.
  TrajectoryInfo trajectory;
  std::vector<TrajectoryInfo> group;  ///< Of a score over the group: in order of their samples.
  // update.
  uint32_t batch_size = 0;
  // publish: earlier versions that rollouts still need.
  std::vector<uint64_t> keep_versions;
};

struct StartTask {
  std::string worker;
  TaskRef ref;
  TaskArgs args;
};
/// A response to an upcoming prompt; not a trajectory, and nothing of it is kept (run_ahead.h).
struct AheadResponse {
  uint64_t prompt_index = 0;
  uint32_t sample = 0;
  uint64_t prompt_id = 0;
};
/// Asks a rollout to sample a response ahead of need, as a draft for later ones.
struct StartAhead {
  std::string worker;
  TaskRef ref;
  uint64_t policy_version = 0;
  AheadResponse response;
};
struct StopTask {
  std::string worker;
  TaskRef ref;
  std::string reason;
};
/// The result is stored once the rows of this turn are.
struct AckResult {
  std::string worker;
  TaskRef ref;
};
/// The job's own row changed.
struct PutJob {};
struct PutTrajectory {
  uint64_t serial = 0;
  int64_t step = 0;
  uint64_t incarnation = 0;
  TrajectoryInfo trajectory;
};
/// Forgets rows [begin, end).
struct DropTrajectories {
  uint64_t begin = 0, end = 0;
};
/// Deletes the experience log files below `end` that are not `needed`.
struct DropLogFiles {
  FileRanges needed;
  uint32_t end = 0;
};
/// The updates that leave with this turn consume the batch.
struct PutBatch {
  store::v1::BatchRow row;
};
/// Forgets the rows of the batches of steps [begin, end).
struct DropBatches {
  int64_t begin = 0, end = 0;
};
/// Payloads in memory that are not needed any more.
struct DropPayloads {
  std::vector<uint64_t> trajectories;
};
/// Tells watchers. `kept` events have a revision and survive a restart.
struct EmitEvent {
  v1::JobEvent event;
  bool kept = true;
};
struct PutMetrics {
  int64_t step = 0;
  std::map<std::string, double> metrics;
};
/// Read the data files, find the model; answer with DataLoaded or DataWaits.
struct LoadData {
  bool held = false;  ///< The job held them before, so it does not wait for room.
};
/// The relation of a batch to the BatchRow of its step in the store.
enum class Recorded {
  kNot,  ///< There is no row yet: it will be made from the batch.
  /// The ranks may have the batch already. No row, or a batch with other columns: DATA_LOSS.
  kCompare,
  /// It is built from the row's responses and baselines. No row, or other columns: DATA_LOSS.
  kReplay,
};
/// Put a batch together, compute its advantages; answer with BatchBuilt, or with PayloadLost.
struct BuildBatch {
  int64_t step = 0;
  uint64_t incarnation = 0;
  std::vector<TrajectoryInfo> trajectories;  ///< In (prompt index, sample) order.
  std::map<uint64_t, double> baselines;      ///< Reward of the greedy response, by prompt index.
  /// The algorithm's state that is carried from step to step: "kl_coef", "lambda".
  std::map<std::string, double> algorithm;
  /// Number of held-out examples that go along: the model is evaluated on them after its update.
  uint64_t held_out = 0;
  Recorded recorded = Recorded::kNot;
};
/// All ranks wrote their parts: add the controller's, rename, answer with CheckpointCommitted.
struct CommitCheckpoint {
  int64_t step = 0;
  uint64_t incarnation = 0;
  store::v1::JobRow row;  ///< The job at that step; by now it may be at another one.
};
/// The checkpoint is complete, and listed from this turn on.
struct PutCheckpoint {
  v1::Checkpoint checkpoint;
};
/// Deletes the checkpoint's row with this turn, then its files.
struct DeleteCheckpoint {
  v1::Checkpoint checkpoint;
};
/// Removes the optimizer's files from checkpoints, which are marked as weights_only; answer with
/// OptimizersDropped.
struct DropOptimizers {
  std::vector<v1::Checkpoint> checkpoints;
};
/// Ask the queue for workers: the roles of a worker slot, joined by "+" -> how many are missing.
struct NeedWorkers {
  std::map<std::string, int> missing;
  WorkerSlotHints hints;
};
/// Give a worker back to the queue.
struct ReturnWorker {
  std::string worker;
  ReturnReason return_reason = ReturnReason::kGood;
};
/// The job ended or is paused: it leaves the queue, and its data leave memory.
struct LeaveQueue {};

using Effect =
    std::variant<StartTask, StartAhead, StopTask, AckResult, PutJob, PutTrajectory,
                 DropTrajectories, DropLogFiles, PutBatch, DropBatches, DropPayloads, EmitEvent,
                 PutMetrics, LoadData, BuildBatch, CommitCheckpoint, PutCheckpoint,
                 DeleteCheckpoint, DropOptimizers, NeedWorkers, ReturnWorker, LeaveQueue>;
using Effects = std::vector<Effect>;

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_JOB_EVENTS_H_
