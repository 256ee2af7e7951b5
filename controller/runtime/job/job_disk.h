// The files of one job, as its disk strand works on them.
#ifndef BATON_CONTROLLER_RUNTIME_JOB_JOB_DISK_H_
#define BATON_CONTROLLER_RUNTIME_JOB_JOB_DISK_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "controller/experience/experience_log.h"
#include "controller/runtime/job/job_scope.h"
#include "controller/runtime/job/job_threads.h"
#include "controller/runtime/payloads/batch_part.h"

namespace baton::controller {

/// The experience log, and work on files that is repeated until the disk lets it succeed. Groups of
/// methods say where they run.
class JobDisk {
 public:
  JobDisk(const JobScope* scope, JobThreads* threads) : scope_(scope), threads_(threads) {}

  /// OK, or why a payload or a checkpoint cannot be written. Any thread.
  absl::Status health() const;

  // On the strand.
  /// Runs `write` on the disk strand until it returns OK, or an error that waiting does not cure;
  /// then runs `done` on the strand. Before each repeat, calls `wanted` on the strand; false: the
  /// write is given up, and `done` gets CANCELLED. Null: always wanted.
  void WriteUntilDone(std::function<absl::Status()> write, std::function<void(absl::Status)> done,
                      std::function<bool()> wanted = nullptr);
  /// For a payload that cannot be read for the moment: runs `again` soon, on the strand, unless the
  /// job has ended by then.
  void ReadAgain(const absl::Status& status, std::function<void()> again);

  // On the disk strand. All block.
  absl::StatusOr<PayloadLocation> Append(absl::string_view bytes);
  absl::StatusOr<std::string> Read(const PayloadLocation& location);
  /// UNAVAILABLE: the disk cannot be read for the moment. DATA_LOSS: the payload is lost.
  absl::StatusOr<v1::Trajectory> ReadWhole(const LoggedPayload& payload);
  void DropFiles(const DropLogFiles& effect);
  /// JobFiles::DropOptimizer.
  absl::StatusOr<int64_t> DropOptimizer(const v1::Checkpoint& checkpoint);
  /// Frees the log's memory; the next call opens it again.
  void CloseLog() { log_ = nullptr; }
  /// Deletes the job's folder, for ever. An error: JobFiles::RemoveAll.
  absl::Status RemoveAll();

 private:
  absl::StatusOr<experience::ExperienceLog*> Log();
  void SetHealth(const absl::Status& status);

  const JobScope* const scope_;
  JobThreads* const threads_;

  // On the disk strand.
  std::unique_ptr<experience::ExperienceLog> log_;
  bool removed_ = false;  // no call may make the folder anew: the name may be another job's

  mutable absl::Mutex mu_;
  absl::Status health_ ABSL_GUARDED_BY(mu_);
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_JOB_JOB_DISK_H_
