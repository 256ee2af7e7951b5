// The runtime of one job: its core, and the parts that connect it to the outside.
//
// Turns calls and messages into events of JobCore, and the core's effects into rows, tasks,
// files and answers. An effect leaves only after the rows of its turn are committed; turns leave
// in order.
//
// All access to the outside goes through ports (controller/ports). In production they are thread
// pools, SQLite and disks; in the simulator they are fakes in virtual time. Both run this class.
//
// Threads: public methods may be called from any thread; they post to the job's strand.
// Only the disk strand touches files. Callbacks come from the strand.
#ifndef BATON_CONTROLLER_RUNTIME_JOB_JOB_RUNTIME_H_
#define BATON_CONTROLLER_RUNTIME_JOB_JOB_RUNTIME_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "controller/core/loop/job_core.h"
#include "controller/runtime/calls/calls.h"
#include "controller/runtime/job/batches.h"
#include "controller/runtime/job/checkpoint_saves.h"
#include "controller/runtime/job/effect_runner.h"
#include "controller/runtime/job/explanations.h"
#include "controller/runtime/job/feeds.h"
#include "controller/runtime/job/job_disk.h"
#include "controller/runtime/job/job_history.h"
#include "controller/runtime/job/job_scope.h"
#include "controller/runtime/job/job_threads.h"
#include "controller/runtime/job/loaded_data.h"
#include "controller/runtime/job/payloads.h"
#include "controller/runtime/job/runtime_context.h"
#include "controller/runtime/job/task_sender.h"
#include "controller/runtime/job/turn_log.h"
#include "controller/runtime/job/worker_reports.h"
#include "controller/runtime/payloads/batch_part.h"
#include "controller/spec/dataflow/role_needs.h"
#include "controller/store/store.h"

namespace baton::controller {

class JobRuntime : public std::enable_shared_from_this<JobRuntime> {
 public:
  /// `stored`: the job was read from the store; otherwise Start writes its first rows.
  /// `quarantined`: the job cannot be restored. `core` is a stand-in for a job that has ended,
  /// these specs are shown, and nothing is ever written: its rows stay as they are.
  JobRuntime(const RuntimeContext* context, JobCore core, int64_t next_log_sequence, bool stored,
             std::shared_ptr<const v1::Job> quarantined = nullptr);
  /// Call before Start: deletes the job's row of kRestoreTable once it has ended or is past `step`.
  void ForgetDeathsAfter(int64_t step) { deaths_at_ = step; }

  /// The first call. `extra` rows are committed together with the job's first rows; then `done` is
  /// called.
  void Start(std::vector<store::Write> extra, std::function<void()> done);
  /// True from the first commit of the job's row until RemoveFiles. Otherwise no call may show the
  /// job.
  bool visible() const { return turns_.visible(); }
  /// Afterwards a job that has ended writes and does nothing more. `done` is called when all
  /// earlier writes are committed, with true if this call retired the job; false: an earlier call
  /// did, or the job has not ended.
  void Retire(std::function<void(bool first)> done);
  void Unretire();
  /// Call after the job's deletion is committed: hides the job, and deletes its folder. `done` runs
  /// on the disk strand and gets an error if the folder still has its name (JobFiles::RemoveAll).
  void RemoveFiles(std::function<void(const absl::Status& removed)> done);
  /// Drops everything that waits for the store, without an answer: callbacks may hold this job.
  /// Call it after the executors have ended.
  void Abandon();

  void Post(Event event);
  /// Time passes. While nothing can be written, deadlines do not advance.
  void Tick();
  /// OK, or why a payload or a checkpoint cannot be written. Thread-safe.
  absl::Status disk_health() const { return disk_.health(); }
  /// Adds writes to a turn; `after` is the brief job after the turn.
  using ExtraRow = std::function<store::Write(const v1::Job& after)>;
  /// Answers with the job after the event. `check` may refuse it, and `extra`. Both may be null.
  void PostAndDescribe(Event event, std::function<absl::Status(const JobCore&)> check,
                       ExtraRow extra, Callback<v1::Job> done);
  void OnResult(const std::string& worker, const TaskRef& ref, v1::TaskResult result);
  void OnProgress(const std::string& worker, const TaskRef& ref, v1::Progress progress);
  void OnWorkerLog(const std::string& worker, const v1::WorkerLog& line);

  /// The job as of its last committed turn.
  v1::Job Snapshot() const { return turns_.Snapshot(); }
  /// The same without spec, effective_spec and dataflow, which may be large.
  v1::Job Brief() const { return turns_.Brief(); }
  v1::Job::State state() const { return turns_.state(); }
  /// Answers with the job once all earlier posts are committed.
  void Describe(Callback<v1::Job> done);
  /// Explains the job's waits, after all earlier posts; while nothing can be written, only that.
  void Explain(Callback<v1::ExplainJobResponse> done);
  void FetchBatch(const v1::FetchBatchRequest& request, Callback<BatchPart> done);
  void FetchHistory(const v1::FetchHistoryRequest& request, JobHistory::Done done);
  /// This job as seen by another job that begins with its responses. Holds the job.
  FoundJob AsFound();
  std::unique_ptr<Subscription> Watch(int64_t after_revision, std::shared_ptr<EventSink> sink);
  std::unique_ptr<Subscription> ReadLogs(int64_t after, bool follow, std::shared_ptr<LogSink> sink);
  /// Reads a payload from the experience log; `done` runs on the disk strand.
  void ReadPayloadAsync(const PayloadLocation& location,
                        std::function<void(absl::StatusOr<std::string>)> done);
  /// Complete checkpoints, oldest first.
  void Checkpoints(Callback<std::vector<v1::Checkpoint>> done);

  const std::string& name() const { return scope_.name; }
  /// The job's name in task tokens. It differs from that of a later job with the same name.
  const std::string& token_name() const { return scope_.token_name; }
  const std::string& uid() const { return scope_.uid; }
  const v1::JobSpec& effective_spec() const { return scope_.submitted->effective_spec(); }
  std::map<std::string, std::string> HeldWorkers() const { return held_at_start_; }
  int priority() const { return priority_; }
  bool quarantined() const { return scope_.quarantined; }
  /// For tests, on the strand: trajectories whose payloads or tokens it holds; call it between
  /// turns.
  std::vector<uint64_t> HeldPayloads() const;
  /// The features that its workers must promise, by role.
  const RoleNeeds& role_needs() const { return role_needs_; }

 private:
  void Run(const Event& event, std::function<void()> after = nullptr,
           const ExtraRow& extra = nullptr);
  /// Lets the core handle an event, and returns its effects.
  Effects Handle(const Event& event);
  void FailForRows(const absl::Status& refused, Effects* effects, std::vector<store::Write>* rows);
  void EndRestoration(std::vector<store::Write>* writes);
  /// After work has thrown, the core's state is unknown, so a stand-in takes its place.
  void Quarantine(const std::string& reason);

  // Constant after construction.
  const std::map<std::string, std::string> held_at_start_;
  const int priority_;
  const RoleNeeds role_needs_;

  // On the strand, unless a part says otherwise.
  JobScope scope_;
  JobThreads threads_;
  TurnLog turns_;
  JobDisk disk_;
  Feeds feeds_;
  LoadedData data_;
  Payloads payloads_;
  JobHistory history_;
  CheckpointSaves saves_;
  Batches batches_;
  TaskSender sender_;
  WorkerReports reports_;
  EffectRunner effects_;
  Explanations explanations_;
  bool retired_ = false;
  std::optional<int64_t> deaths_at_;  // the controller died under the work for it, at this step
  absl::Time held_since_ = absl::InfinitePast();  // since when nothing can be written
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_JOB_JOB_RUNTIME_H_
