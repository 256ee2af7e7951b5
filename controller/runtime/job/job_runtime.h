// One job without its core: its strand, its payloads, its watchers.
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

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "controller/core/loop/job_core.h"
#include "controller/experience/experience_log.h"
#include "controller/ports/executor.h"
#include "controller/ports/job_files.h"
#include "controller/runtime/calls/calls.h"
#include "controller/runtime/job/batch_builder.h"
#include "controller/runtime/job/early_responses.h"
#include "controller/runtime/job/feed.h"
#include "controller/runtime/job/job_history.h"
#include "controller/runtime/job/partial_response.h"
#include "controller/runtime/job/payload_cache.h"
#include "controller/runtime/job/runtime_context.h"
#include "controller/runtime/job/step_log.h"
#include "controller/spec/role_needs.h"
#include "controller/store/store.h"
#include "sdk/data_set/data_set.h"

namespace baton::controller {

class JobRuntime : public std::enable_shared_from_this<JobRuntime> {
 public:
  /// `stored`: the job was read from the store; otherwise Start writes its first rows.
  /// `set_aside`: the job cannot be restored. `core` is a stand-in for a job that has ended, these
  /// specs are shown, and nothing is ever written: its rows stay as they are.
  JobRuntime(const RuntimeContext* context, JobCore core, int64_t next_log_sequence, bool stored,
             std::shared_ptr<const v1::Job> set_aside = nullptr);
  /// Call before Start: deletes the job's row of kRestoreTable once it has ended or is past `step`.
  void ForgetDeathsAfter(int64_t step) { deaths_at_ = step; }

  /// The first call. `extra` rows are committed together with the job's first rows; then `done` is
  /// called.
  void Start(std::vector<store::Write> extra, std::function<void()> done);
  /// True from the first commit of the job's row until Hide. Otherwise no call may show the job.
  bool visible() const { return visible_; }
  void Hide() { visible_ = false; }
  /// Afterwards a job that has ended writes and does nothing more. `done` is called when all
  /// earlier writes are committed, with true if this call retired the job; false: an earlier call
  /// did, or the job has not ended.
  void Retire(std::function<void(bool first)> done);
  void Unretire();
  /// Call after the job's deletion is committed: deletes its folder. `done` runs on the disk strand
  /// and gets an error if the folder still has its name (JobFiles::RemoveAll).
  void RemoveFiles(std::function<void(const absl::Status& removed)> done);
  /// Drops everything that waits for the store, without an answer: callbacks may hold this job.
  /// Call it after the executors have ended.
  void Abandon();

  void Post(Event event);
  /// Time passes. While nothing can be written, deadlines stand still.
  void Tick();
  /// OK, or why a payload or a checkpoint cannot be written. Thread-safe.
  absl::Status disk_health() const;
  /// Adds writes to a turn; `after` is the brief job after the turn.
  using ExtraRow = std::function<store::Write(const v1::Job& after)>;
  /// Answers with the job after the event. `check` may refuse it, and `extra`. Both may be null.
  void PostAndDescribe(Event event, std::function<absl::Status(const JobCore&)> check,
                       ExtraRow extra, Callback<v1::Job> done);
  void OnResult(const std::string& worker, const TaskRef& ref, v1::TaskResult result);
  void OnProgress(const std::string& worker, const TaskRef& ref, v1::Progress progress);
  void OnWorkerLog(const std::string& worker, const v1::WorkerLog& line);

  /// The job as of its last committed turn.
  v1::Job Snapshot() const;
  /// The same without spec, effective_spec and dataflow, which may be large.
  v1::Job Brief() const;
  v1::Job::State state() const;
  /// Answers with the job once all earlier posts are committed.
  void Describe(Callback<v1::Job> done);
  /// What it waits for, after all earlier posts; while nothing can be written, only that.
  void Explain(Callback<v1::ExplainJobResponse> done);
  void FetchBatch(const v1::FetchBatchRequest& request, Callback<BatchPart> done);
  void FetchHistory(const v1::FetchHistoryRequest& request, JobHistory::Done done);
  /// What another job that begins with this one's responses reads of it. Holds the job.
  FoundJob AsFound();
  std::unique_ptr<Subscription> Watch(int64_t after_revision, std::shared_ptr<EventSink> sink);
  std::unique_ptr<Subscription> ReadLogs(int64_t after, bool follow, std::shared_ptr<LogSink> sink);
  /// Of the experience log; `done` runs on the disk strand.
  void ReadPayloadAsync(const PayloadLocation& location,
                        std::function<void(absl::StatusOr<std::string>)> done);
  /// Complete checkpoints, oldest first.
  void Checkpoints(Callback<std::vector<v1::Checkpoint>> done);

  const std::string& name() const { return name_; }
  /// The job's name in task tokens. It differs from that of a later job with the same name.
  const std::string& token_name() const { return token_name_; }
  const std::string& uid() const { return uid_; }
  std::map<std::string, std::string> HeldWorkers() const { return held_at_start_; }
  int priority() const { return priority_; }
  bool set_aside() const { return set_aside_; }
  /// For tests, on the strand: of which trajectories it holds payloads or tokens; none in a turn.
  std::vector<uint64_t> HeldPayloads() const;
  /// The features that its workers must promise, by role.
  const RoleNeeds& role_needs() const { return role_needs_; }

 private:
  struct Turn {
    Effects effects;
    std::shared_ptr<const v1::Job> durable;  // after this turn; null: unchanged
    v1::Job progress;
    bool committed = false;
    std::function<void()> after;
  };
  int64_t MaxResponseTokens() const;  // no bound if the spec has none
  struct Batch {
    std::string id, capability;
    std::shared_ptr<const BatchEntries> entries;
  };

  /// Runs a turn, or work elsewhere (Guard). If it throws, the job alone is set aside.
  void TakeTurn(const std::function<void()>& work);
  void Guard(const std::function<void()>& work);
  void SetAside(const std::string& reason);
  void DropWork();  // what it works with; rows and files have it
  void EndRestoration(std::vector<store::Write>* writes);
  void Run(const Event& event, std::function<void()> after = nullptr,
           const ExtraRow& extra = nullptr);
  void FailForRows(const absl::Status& refused, Effects* effects, std::vector<store::Write>* rows);
  void Finish(Effects effects, std::vector<store::Write> writes, std::function<void()> after);
  void Committed();
  void Flush();
  std::deque<Turn>::iterator NextToLeave();
  void Leave(Turn& turn);
  std::vector<store::Write> RowsOf(const Effects& effects);

  // Effects that leave (job_runtime_effects.cc).
  void Do(const StartTask& effect);
  void Do(const StartAhead& effect);
  void Do(const StopTask& effect);
  void Do(const AckResult& effect);
  void Do(const PutJob&) {}
  void Do(const PutTrajectory&) {}
  void Do(const DropTrajectories&) {}
  void Do(const DropLogFiles& effect);
  void Do(const PutBatch&) {}
  void Do(const DropBatches&) {}
  void Do(const DropPayloads& effect);
  void Do(const EmitEvent& effect);
  void Do(const PutMetrics&) {}
  void Do(const LoadData& effect);
  void Do(const BuildBatch& effect);
  using Row = std::shared_ptr<const store::v1::BatchRow>;  // that a batch has; null: none
  void Build(const BuildBatch& effect, const Row& recorded);
  struct Building;
  void BuildLater(const Building& failed, const absl::Status& status);
  void TakeBatch(const BuildBatch& effect, absl::StatusOr<BuiltBatch> built);
  void Do(const CommitCheckpoint& effect);
  void Do(const PutCheckpoint&) {}
  void Do(const DeleteCheckpoint& effect);
  void Do(const NeedWorkers& effect);
  void Do(const ReturnWorker& effect);
  void Do(const LeaveQueue& effect);

  void Send(const std::string& worker, v1::Task task);
  v1::Task MakeTask(const StartTask& effect);
  void SendScore(const StartTask& effect);
  /// With the response that was made for the same draw before, if there is one, as a draft.
  void SendGenerate(const StartTask& effect, v1::Task task);
  void FillGenerate(const StartTask& effect, v1::Task& task);
  void FillScore(const StartTask& effect, const v1::Trajectory& payload, v1::Task& task);
  void FillUpdate(const StartTask& effect, v1::Task& task);
  void Refuse(const std::string& worker, const TaskRef& ref);
  void TakeHeldResults();
  void StoreColumns(TaskDone done, v1::TaskResult result);
  void AddToPayload(uint64_t trajectory, uint32_t node, const v1::Column& column);
  /// Writes a payload to the log; `done` runs on the strand once the log has it.
  void LogPayload(PayloadCache::Payload payload,
                  std::function<void(const absl::StatusOr<PayloadLocation>&)> done);
  /// Tells the core whether payloads that wait for the log leave room for more.
  void CheckPayloadBudget();
  void SendAssign(const StartTask& effect, v1::Task task);  // job_runtime_groups.cc
  void SendSave(const StartTask& effect, v1::Task task);
  void BeginSave(const StartTask& effect, const absl::Status& prepared);
  void StoreGenerated(const std::string& worker, const TaskRef& ref, v1::TaskResult result);
  static std::string BatchId(int64_t step, uint64_t incarnation);
  std::string Capability(const std::string& batch_id) const;
  /// Reads the history after `after` in pieces, to its end.
  void CatchUpEvents(const Feed<v1::JobEvent>::Handle& subscriber, int64_t after);
  void CatchUpLogs(const Feed<v1::LogEntry>::Handle& subscriber, int64_t after);
  absl::Status WriteHealth() const;
  void AnswerHeldExplains();
  void AppendLog(const std::string& source, const std::string& level, const std::string& message,
                 std::function<void()> after = nullptr);
  absl::StatusOr<experience::ExperienceLog*> Log();                          // on disk_
  absl::StatusOr<PayloadLocation> AppendPayload(absl::string_view bytes);    // on disk_
  absl::StatusOr<std::string> ReadPayload(const PayloadLocation& location);  // on disk_
  absl::StatusOr<v1::Trajectory> ReadWhole(const LoggedPayload& payload);    // on disk_
  /// A payload cannot be read for the moment: tries again soon, while the job is active.
  void ReadAgain(const absl::Status& status, std::function<void()> again);
  /// ReadWhole for a batch that is fetched; the job hears of a payload that is lost.
  absl::StatusOr<v1::Trajectory> ReadForBatch(const LoggedPayload& payload);  // on disk_
  const Example* ExampleOf(const TrajectoryInfo& info) const;
  void OnDisk(std::function<void()> work);
  /// Runs `slice` on disk_ until it answers true, each time as work of its own: others get theirs.
  void InSlices(std::function<bool()> slice);
  void OnReaders(std::function<void()> work);
  void OnDataReaders(const v1::DataSpec& data, std::function<void()> work);
  /// Runs `write` on the disk strand until it answers OK, or an error that waiting does not cure;
  /// then runs `done` on the strand. Before each repeat, `wanted` is asked on the strand; false:
  /// the write is given up, and `done` gets CANCELLED. Null: always wanted.
  void WriteUntilDone(std::function<absl::Status()> write, std::function<void(absl::Status)> done,
                      std::function<bool()> wanted = nullptr);
  void SetDiskHealth(const absl::Status& status);
  void OnStrand(std::function<void()> work);

  // Constant after construction.
  const RuntimeContext* const context_;
  const std::string name_;
  const std::string uid_;
  const std::string token_name_;
  const std::unique_ptr<JobFiles> files_;
  const std::map<std::string, std::string> held_at_start_;
  const int priority_;
  const RoleNeeds role_needs_;
  const std::shared_ptr<const v1::Job> submitted_;  // spec, effective_spec, dataflow
  const std::unique_ptr<Executor> strand_;
  const std::unique_ptr<Executor> disk_;

  // On strand_.
  std::atomic<bool> set_aside_;  // core_ is a stand-in: nothing is written, and nothing leaves
  JobCore core_;
  std::deque<Turn> turns_;
  std::shared_ptr<const v1::Job> changed_;  // set by the current turn; null: unchanged
  bool flushing_ = false, retired_ = false;
  bool restoring_;  // set from a restart until the trajectories of the job's step are known again
  std::optional<int64_t> deaths_at_;  // the controller died under the work for it, at this step
  absl::Time held_since_ = absl::InfinitePast();  // since when nothing can be written
  std::shared_ptr<const DataSet> train_, val_, pretrain_;
  uint64_t data_read_ = 0;  // the newest reading of them; an older one is dropped
  PayloadCache payloads_;
  JobHistory history_;
  uint64_t builds_ = 0;         // of batches, begun
  bool payloads_wait_ = false;  // as the core knows
  std::map<uint64_t, PartialResponse> partials_;
  EarlyResponses early_;
  Batch batch_;
  struct PreparedSave {  // of one try: its folder is being prepared, or exists
    bool preparing = false, ready = false;
    std::map<std::string, v1::Task> waiting;  // by worker
  };
  std::map<TaskRef, PreparedSave> saves_;
  std::map<std::string, std::vector<v1::FileHash>> saved_files_;  // of the last save, by role
  Feed<v1::JobEvent> events_;
  Feed<v1::LogEntry> logs_;
  int64_t next_log_sequence_;
  bool logs_ended_;    // the log line of the job's end is committed
  bool stored_;        // the job's first row is committed
  bool spec_written_;  // the row of kSpecTable is written, or on its way
  size_t worker_lines_ = 0, worker_line_bytes_ = 0;  // not committed yet
  size_t dropped_worker_lines_ = 0;                  // since the last line that was kept
  StepLog step_log_;
  // Calls of Explain whose answer is not committed yet; empty once answered.
  std::deque<std::shared_ptr<Callback<v1::ExplainJobResponse>>> explains_;
  // On disk_.
  std::unique_ptr<experience::ExperienceLog> log_;
  bool files_removed_ = false;  // no call may make the folder anew: the name may be another job's

  std::atomic<bool> visible_;
  mutable absl::Mutex mu_;
  std::shared_ptr<const v1::Job> durable_ ABSL_GUARDED_BY(mu_);  // as of the last committed turn
  v1::Job progress_ ABSL_GUARDED_BY(mu_);
  absl::Status disk_health_ ABSL_GUARDED_BY(mu_);
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_JOB_JOB_RUNTIME_H_
