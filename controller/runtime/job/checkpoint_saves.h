// The checkpoint saves of one job: written by its ranks, then completed by the controller.
#ifndef BATON_CONTROLLER_RUNTIME_JOB_CHECKPOINT_SAVES_H_
#define BATON_CONTROLLER_RUNTIME_JOB_CHECKPOINT_SAVES_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "baton/v1/worker_service.pb.h"
#include "controller/runtime/job/job_disk.h"
#include "controller/runtime/job/job_scope.h"
#include "controller/runtime/job/job_threads.h"

namespace baton::controller {

/// On the job's strand; files are touched on the disk strand.
class CheckpointSaves {
 public:
  CheckpointSaves(const JobScope* scope, JobThreads* threads, JobDisk* disk)
      : scope_(scope), threads_(threads), disk_(disk) {}

  /// Sends `task` to a rank that saves, once the folder of this try exists. Rank 0 has it made.
  void Send(const StartTask& effect, v1::Task task);
  /// Notes the files that rank 0 of a role reports as written.
  void NoteFiles(const std::string& role, const v1::TaskResult& result);
  /// Completes the checkpoint, then tells the core CheckpointCommitted. A full disk is waited for,
  /// as long as the job wants the checkpoint.
  void Commit(const CommitCheckpoint& effect);
  void Delete(const DeleteCheckpoint& effect);
  /// Removes the optimizer's files of these checkpoints, then tells the core OptimizersDropped. A
  /// checkpoint that another job copies is waited for. If a file cannot be removed, the core is not
  /// told, so the next start of the controller tries again.
  void DropOptimizers(std::vector<v1::Checkpoint> checkpoints);
  void Clear();

 private:
  /// A try to save: its folder is being prepared, or exists.
  struct Try {
    bool preparing = false, ready = false;
    std::map<std::string, v1::Task> waiting;  // by worker
  };

  /// Optimizers that are being dropped.
  struct Drop;

  /// On the disk strand: one checkpoint. True: it was the last one.
  bool DropNext(Drop* drop);
  void EndDrop(const Drop& drop);
  void ForgetEarlier(const TaskRef& ref);
  void Prepare(const StartTask& effect);
  void Begin(const StartTask& effect, const absl::Status& prepared);
  void SendNow(const std::string& worker, v1::Task task) const;

  const JobScope* const scope_;
  JobThreads* const threads_;
  JobDisk* const disk_;
  std::map<TaskRef, Try> tries_;
  std::map<std::string, std::vector<v1::FileHash>> written_;  // of the last save, by role
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_JOB_CHECKPOINT_SAVES_H_
