// Execution of the effects of one job's turns.
#ifndef BATON_CONTROLLER_RUNTIME_JOB_EFFECT_RUNNER_H_
#define BATON_CONTROLLER_RUNTIME_JOB_EFFECT_RUNNER_H_

#include "controller/runtime/job/batches.h"
#include "controller/runtime/job/checkpoint_saves.h"
#include "controller/runtime/job/feeds.h"
#include "controller/runtime/job/job_disk.h"
#include "controller/runtime/job/job_history.h"
#include "controller/runtime/job/job_scope.h"
#include "controller/runtime/job/job_threads.h"
#include "controller/runtime/job/loaded_data.h"
#include "controller/runtime/job/payloads.h"
#include "controller/runtime/job/task_sender.h"
#include "controller/runtime/job/worker_reports.h"

namespace baton::controller {

/// Passes each effect to the part of the job that carries it out. On the job's strand.
class EffectRunner {
 public:
  /// The parts of the job.
  struct Parts {
    JobThreads* threads;
    JobDisk* disk;
    Feeds* feeds;
    LoadedData* data;
    Payloads* payloads;
    JobHistory* history;
    CheckpointSaves* saves;
    Batches* batches;
    TaskSender* sender;
    WorkerReports* reports;
  };

  EffectRunner(const JobScope* scope, const Parts& parts) : scope_(scope), parts_(parts) {}

  void Run(const Effect& effect);
  /// Drops the job's working data in memory; rows and files have all of it.
  void DropWork();

 private:
  void Do(const StartTask& effect) { parts_.sender->Start(effect); }
  void Do(const StartAhead& effect) { parts_.sender->RunAhead(effect); }
  void Do(const StopTask& effect) { parts_.sender->Stop(effect); }
  void Do(const AckResult& effect) { parts_.sender->Acknowledge(effect); }
  void Do(const LoadData& effect) { parts_.data->Load(effect); }
  void Do(const BuildBatch& effect) { parts_.batches->Build(effect); }
  void Do(const CommitCheckpoint& effect) { parts_.saves->Commit(effect); }
  void Do(const DeleteCheckpoint& effect) { parts_.saves->Delete(effect); }
  void Do(const DropOptimizers& effect) { parts_.saves->DropOptimizers(effect.checkpoints); }
  void Do(const DropLogFiles& effect);
  void Do(const DropPayloads& effect);
  void Do(const EmitEvent& effect);
  void Do(const NeedWorkers& effect);
  void Do(const ReturnWorker& effect);
  void Do(const LeaveQueue& effect);
  // Rows, which are in the store by now.
  void Do(const PutJob& /*effect*/) {}
  void Do(const PutTrajectory& /*effect*/) {}
  void Do(const DropTrajectories& /*effect*/) {}
  void Do(const PutBatch& /*effect*/) {}
  void Do(const DropBatches& /*effect*/) {}
  void Do(const PutMetrics& /*effect*/) {}
  void Do(const PutCheckpoint& /*effect*/) {}

  const JobScope* const scope_;
  const Parts parts_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_JOB_EFFECT_RUNNER_H_
