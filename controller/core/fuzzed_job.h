// For fuzz targets: one JobCore, and a world around it that a fuzzer's bytes decide.
//
// Workers answer late, twice, wrongly or never, and say what was not asked. What the controller
// does for itself (reading data, building batches, renaming checkpoints, keeping rows) is honest:
// late or failing, but never made up. After every event the rules of the core are checked; a
// broken one ends the process with its name.
#ifndef BATON_CONTROLLER_CORE_FUZZED_JOB_H_
#define BATON_CONTROLLER_CORE_FUZZED_JOB_H_

#include <fuzzer/FuzzedDataProvider.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "controller/core/job_core.h"

namespace baton::controller {

/// Ends the process with the rule's name when it is broken.
void Require(bool holds, const char* rule);

/// A small job named `projects/p/jobs/{id}`, as the controller accepts it.
v1::Job FuzzedSpec(const std::string& id, bool sft, FuzzedDataProvider& input);

class FuzzedJob {
 public:
  using Rows = std::map<uint64_t, store::v1::TrajectoryRow>;

  FuzzedJob(const v1::Job& job, FuzzedDataProvider* input);
  /// Restored from rows, as after a restart.
  FuzzedJob(const store::v1::JobRow& row, const Rows& rows, FuzzedDataProvider* input);

  /// Told of the effects that are for the queue: NeedWorkers, ReturnWorker, LeaveQueue. Without it
  /// the job is its own queue, which grants any worker.
  void SetQueue(std::function<void(const Effect&)> queue) { queue_ = std::move(queue); }

  void Start(absl::Time now);
  /// The bytes choose what happens.
  void Happen(absl::Time now);
  void Send(const Event& event, absl::Time now);
  /// The controller dies and returns with its rows.
  void Restart(uint64_t epoch, absl::Time now);
  /// What a worker says that attaches again: what it runs of this job, and what was never asked.
  WorkerBack Back(const std::string& worker, bool holds_role);

  const JobCore& core() const { return *core_; }
  const store::v1::JobRow& row() const { return row_; }
  const Rows& rows() const { return rows_; }

 private:
  void Apply(const Effects& effects, absl::Time now);
  void See(const Effect& effect);
  void See(const StartTask& start);
  void See(const BuildBatch& batch);
  void CheckRows();
  void Check(absl::Time now);
  /// Up to so many things happen as they should.
  void GoWell(int turns, absl::Time now);
  bool GrantNext(absl::Time now);
  TaskDone Answer();
  TaskRef SomeRef();
  std::string SomeWorker();
  absl::Status SomeError();
  void HappenToQueue(absl::Time now);
  void HappenToController(absl::Time now);

  FuzzedDataProvider* const input_;
  std::function<void(const Effect&)> queue_;
  JobCoreOptions options_;
  std::unique_ptr<JobCore> core_;
  bool started_ = false;
  store::v1::JobRow row_;
  Rows rows_;
  struct Asked {
    StartTask task;
    bool answered = false;
  };
  std::deque<Asked> asked_;          // of workers
  std::vector<Event> own_;           // the controller's own work that is under way
  std::map<std::string, int> need_;  // by role
  uint64_t policy_version_ = 0, incarnation_ = 0;
  int64_t revision_ = 0;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_FUZZED_JOB_H_
