// One job outside of its core: its strand, its payloads, its watchers.
//
// Turns calls and messages into events of JobCore, and the core's effects into rows, tasks,
// files and answers. An effect leaves only after the rows of its turn are committed; turns leave
// in order.
//
// Threads: public methods may be called from any thread; they post to the job's strand.
// Files are touched on the disk executor alone. Callbacks come from the strand.
#ifndef BATON_CONTROLLER_RUNTIME_JOB_RUNTIME_H_
#define BATON_CONTROLLER_RUNTIME_JOB_RUNTIME_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "boost/asio/strand.hpp"
#include "boost/asio/thread_pool.hpp"
#include "controller/core/job_core.h"
#include "controller/experience/experience_log.h"
#include "controller/runtime/checkpoint_files.h"
#include "controller/runtime/controller_interface.h"
#include "controller/runtime/data_files.h"
#include "controller/runtime/data_readers.h"
#include "controller/runtime/feed.h"
#include "controller/runtime/gate.h"
#include "controller/runtime/job_rows.h"
#include "controller/runtime/restore_marks.h"
#include "controller/runtime/worker_directory.h"
#include "controller/store/store.h"
#include "sdk/base/clock.h"
#include "sdk/data_set/data_set.h"

namespace baton::controller {

/// What all jobs share. Outlives every JobRuntime.
struct RuntimeContext {
  boost::asio::thread_pool* strands = nullptr;
  boost::asio::thread_pool* disk = nullptr;
  boost::asio::thread_pool* readers = nullptr;  ///< What watchers and lists read of the store.
  DataReaders* data = nullptr;                  ///< Of data files; null: `disk`.
  Gate* gate = nullptr;                         ///< All posts go through it.
  store::Store* store = nullptr;
  WorkerDirectory* workers = nullptr;
  const Clock* clock = nullptr;
  RestoreMarks* marks = nullptr;  ///< Null: deaths of the controller are not counted.
  std::string data_root;
  KeptRows kept;
  /// What data files of a job may be by now; thread-safe. Null: anything.
  std::function<DataLimits(const std::string& job)> data_limits;
  bool sync_payloads = false;  ///< Before the rows that name them are committed.
  std::string secret;          ///< Makes capabilities that cannot be guessed.
  std::string relay_key;       ///< … and those that relays ask for; empty: none is given.
  uint64_t epoch = 0;
  JobCoreOptions core;
  /// Of the queue; thread-safe.
  std::function<void(const std::string& job, const NeedWorkers&)> need;
  std::function<void(const std::string& job, const ReturnWorker&)> return_worker;
  std::function<void(const std::string& job)> leave;
};

class JobRuntime : public std::enable_shared_from_this<JobRuntime> {
 public:
  /// `stored`: the job was read from the store; otherwise Start writes its first rows.
  /// `set_aside`: the job cannot be restored. `core` is a stand-in that has ended, these specs are
  /// shown, and nothing is ever written: its rows stay as they are.
  JobRuntime(const RuntimeContext* context, JobCore core, int64_t next_log_sequence, bool stored,
             std::shared_ptr<const v1::Job> set_aside = nullptr);
  /// Before Start: when the job has been restored, its row of kRestoreTable goes.
  void ForgetRestoration() { forget_restoration_ = true; }

  /// First call. `extra` rows are committed together with the job's first; `done` is called
  /// after that.
  void Start(std::vector<store::Write> extra, std::function<void()> done);
  /// True once the job's row is in the store, until Hide: before and after, no call may show it.
  bool visible() const { return visible_; }
  void Hide() { visible_ = false; }
  /// From here on the job writes and does nothing. `done` hears, when everything before it is
  /// committed, whether this call was the first.
  void Retire(std::function<void(bool first)> done);
  /// Takes Retire back.
  void Unretire();
  /// After the job's deletion is committed: deletes its folder. `done` runs on the disk executor;
  /// it hears an error when the folder has its name still (RemoveJobFolder).
  void RemoveFiles(std::function<void(const absl::Status& removed)> done);

  void Post(Event event);
  /// Time goes on. While nothing can be written, deadlines stand still.
  void Tick();
  /// OK, or why a payload or a checkpoint of the job cannot be written. Thread-safe.
  absl::Status disk_health() const;
  /// What else is to be written with a turn; `after` is the job as the turn leaves it, brief.
  using ExtraRow = std::function<store::Write(const v1::Job& after)>;
  /// Posts and answers with the job as it is afterwards. `check` may refuse; then `extra` is not
  /// written. May be null, both.
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
  /// The job once everything that was posted before is committed.
  void Describe(Callback<v1::Job> done);
  /// Likewise; while nothing can be written, that alone.
  void Explain(Callback<v1::ExplainJobResponse> done);
  void FetchBatch(const v1::FetchBatchRequest& request, Callback<std::vector<v1::Trajectory>> done);
  std::unique_ptr<Subscription> Watch(int64_t after_revision, std::shared_ptr<EventSink> sink);
  std::unique_ptr<Subscription> ReadLogs(int64_t after, bool follow, std::shared_ptr<LogSink> sink);
  /// Reads a payload from the experience log; `done` runs on the disk executor.
  void ReadPayloadAsync(const PayloadLocation& location,
                        std::function<void(absl::StatusOr<std::string>)> done);
  /// Complete checkpoints, oldest first.
  void Checkpoints(Callback<std::vector<v1::Checkpoint>> done);

  const std::string& name() const { return name_; }
  /// How task tokens name the job: a later job of the same name is another.
  const std::string& token_name() const { return token_name_; }
  const std::string& uid() const { return uid_; }
  std::map<std::string, std::string> HeldWorkers() const { return held_at_start_; }
  int priority() const { return priority_; }
  /// What its workers must promise, by role.
  const std::map<std::string, std::string>& needed_features() const { return needed_features_; }
  static std::string Directory(const std::string& data_root, const std::string& name);

 private:
  struct Turn {
    Effects effects;
    std::shared_ptr<const v1::Job> durable;  // as it is after this turn; null: as before
    v1::Job progress;
    bool committed = false;
    std::function<void()> after;
  };
  struct Partial {  // of a running generation
    std::vector<int32_t> tokens;
    std::vector<float> log_probs;
    std::vector<float> sampling_log_probs;  // empty: the same

    void Append(const v1::Progress& progress);
  };
  struct Generated {
    std::string worker;
    TaskRef ref;
    v1::TaskResult result;
  };
  struct Batch {
    std::string id, capability;
    std::vector<v1::Trajectory> trajectories;
  };

  RestoreMarks::Mark MarkRestoration() const;
  void EndRestoration(std::vector<store::Write>* writes);
  void Run(const Event& event, std::function<void()> after = nullptr,
           const ExtraRow& extra = nullptr);
  void Finish(Effects effects, std::vector<store::Write> writes, std::function<void()> after);
  void Flush();
  void Leave(Turn& turn);
  std::vector<store::Write> RowsOf(const Effects& effects);

  // Effects that leave (job_runtime_effects.cc).
  void Do(const StartTask& effect);
  void Do(const StopTask& effect);
  void Do(const AckResult& effect);
  void Do(const PutJob&) {}
  void Do(const PutTrajectory&) {}
  void Do(const DropTrajectories& effect);
  void Do(const DropPayloads& effect);
  void Do(const EmitEvent& effect);
  void Do(const PutMetrics&) {}
  void Do(const LoadData& effect);
  void Do(const BuildBatch& effect);
  void Do(const CommitCheckpoint& effect);
  void Do(const PutCheckpoint&) {}
  void Do(const DeleteCheckpoint& effect);
  void Do(const NeedWorkers& effect);
  void Do(const ReturnWorker& effect);
  void Do(const LeaveQueue& effect);

  void Send(const std::string& worker, v1::Task task);
  v1::Task MakeTask(const StartTask& effect);
  void SendScore(const StartTask& effect);
  void FillGenerate(const StartTask& effect, v1::Task& task);
  void FillScore(const StartTask& effect, const v1::Trajectory& payload, v1::Task& task);
  void FillUpdate(const StartTask& effect, v1::Task& task);
  void Refuse(const std::string& worker, const TaskRef& ref);
  void HearHeld();
  void StoreColumns(TaskDone done, v1::TaskResult result);
  void SendAssign(const StartTask& effect, v1::Task task);  // job_runtime_groups.cc
  void SendSave(const StartTask& effect, v1::Task task);
  void BeginSave(const StartTask& effect, const absl::Status& prepared);
  void StoreGenerated(const std::string& worker, const TaskRef& ref, v1::TaskResult result);
  v1::Trajectory MakePayload(const TrajectoryInfo& info) const;
  v1::Trajectory MakeExample(const TrajectoryInfo& info) const;
  void TakePromptApart(const TrajectoryInfo& info, v1::Trajectory* payload) const;
  static std::string BatchId(int64_t step, uint64_t incarnation);
  std::string Capability(const std::string& batch_id) const;
  /// Reads what follows `after`, a piece at a time, until nothing does.
  void CatchUpEvents(const Feed<v1::JobEvent>::Handle& subscriber, int64_t after);
  void CatchUpLogs(const Feed<v1::LogEntry>::Handle& subscriber, int64_t after);
  absl::Status WriteHealth() const;
  void AnswerHeldExplains();
  void AppendLog(const std::string& source, const std::string& level, const std::string& message,
                 std::function<void()> after = nullptr);
  absl::StatusOr<experience::ExperienceLog*> Log();                          // on disk_
  absl::StatusOr<std::string> ReadPayload(const PayloadLocation& location);  // on disk_
  absl::StatusOr<v1::Trajectory> ReadWhole(const TrajectoryInfo& info);      // on disk_
  const Example* ExampleOf(const TrajectoryInfo& info) const;
  void OnDisk(std::function<void()> work);
  void OnReaders(std::function<void()> work);
  /// Runs `work`, which reads these data files of the spec.
  void OnDataReaders(const v1::DataSpec& data, std::function<void()> work);
  /// Runs `write` on the disk executor until it answers OK or an error that waiting does not end;
  /// then runs `done` on the strand.
  void WriteUntilDone(std::function<absl::Status()> write, std::function<void(absl::Status)> done);
  void SetDiskHealth(const absl::Status& status);
  void OnStrand(std::function<void()> work);

  // Constant after construction.
  const RuntimeContext* const context_;
  const std::string name_;
  const std::string uid_;
  const std::string token_name_;
  const std::string directory_;
  const CheckpointFiles checkpoint_files_;
  const std::map<std::string, std::string> held_at_start_;
  const int priority_;
  const std::map<std::string, std::string> needed_features_;
  const bool set_aside_;
  const std::shared_ptr<const v1::Job> submitted_;  // spec, effective_spec, dataflow
  boost::asio::strand<boost::asio::thread_pool::executor_type> strand_;
  boost::asio::strand<boost::asio::thread_pool::executor_type> disk_;

  // On strand_.
  JobCore core_;
  std::deque<Turn> turns_;
  std::shared_ptr<const v1::Job> changed_;  // by the turn that is being made; null: it was not
  bool flushing_ = false;
  bool retired_ = false;
  // From a restart until the trajectories of its step stand again: what may kill the controller at
  // every start.
  bool restoring_;
  bool forget_restoration_ = false;
  absl::Time held_since_ = absl::InfinitePast();  // nothing can be written since then
  std::shared_ptr<const DataSet> train_, val_, pretrain_;
  std::map<uint64_t, v1::Trajectory> payloads_;
  std::map<uint64_t, Partial> partials_;
  std::vector<Generated> held_;  // results that came before their trajectories were known
  Batch batch_;
  struct PreparedSave {  // of one try: its folder is being prepared, or stands
    bool preparing = false, ready = false;
    std::map<std::string, v1::Task> waiting;  // by worker
  };
  std::map<TaskRef, PreparedSave> saves_;
  std::map<std::string, std::vector<v1::FileHash>> saved_files_;  // by role: saved last
  Feed<v1::JobEvent> events_;
  Feed<v1::LogEntry> logs_;
  int64_t next_log_sequence_;
  bool logs_ended_;                  // the line of the job's end is committed
  bool stored_;                      // its first row is committed
  bool spec_written_;                // its row of kSpecTable is at least on its way
  size_t worker_lines_ = 0;          // not committed yet
  size_t dropped_worker_lines_ = 0;  // since the last that was kept
  // Calls of Explain whose answer is not committed yet; emptied once they are answered.
  std::deque<std::shared_ptr<Callback<v1::ExplainJobResponse>>> explains_;

  // On disk_.
  std::unique_ptr<experience::ExperienceLog> log_;

  std::atomic<bool> visible_;
  mutable absl::Mutex mu_;
  std::shared_ptr<const v1::Job> durable_ ABSL_GUARDED_BY(mu_);  // as of the last committed turn
  v1::Job progress_ ABSL_GUARDED_BY(mu_);
  absl::Status disk_health_ ABSL_GUARDED_BY(mu_);
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_JOB_RUNTIME_H_
