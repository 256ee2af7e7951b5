// Delivery of one job's tasks to workers.
#ifndef BATON_CONTROLLER_RUNTIME_JOB_TASK_SENDER_H_
#define BATON_CONTROLLER_RUNTIME_JOB_TASK_SENDER_H_

#include <string>

#include "baton/v1/worker_service.pb.h"
#include "controller/runtime/job/batches.h"
#include "controller/runtime/job/checkpoint_saves.h"
#include "controller/runtime/job/job_disk.h"
#include "controller/runtime/job/job_history.h"
#include "controller/runtime/job/job_scope.h"
#include "controller/runtime/job/job_threads.h"
#include "controller/runtime/job/loaded_data.h"
#include "controller/runtime/job/payloads.h"

namespace baton::controller {

/// Fills in what a task brings besides its name: prompts, payloads, the batch. A payload that
/// memory does not have is read from the experience log first, on the disk strand. On the job's
/// strand.
class TaskSender {
 public:
  /// The job's other parts, which a task takes from.
  struct Sources {
    JobThreads* threads;
    JobDisk* disk;
    Payloads* payloads;
    const LoadedData* data;
    const Batches* batches;
    const JobHistory* history;
    CheckpointSaves* saves;
  };

  TaskSender(const JobScope* scope, const Sources& from) : scope_(scope), from_(from) {}

  void Start(const StartTask& effect);
  void RunAhead(const StartAhead& effect);
  void Stop(const StopTask& effect) const;
  void Acknowledge(const AckResult& effect) const;

 private:
  v1::Task MakeTask(const StartTask& effect) const;
  void Send(const std::string& worker, v1::Task task) const;
  void Assign(const StartTask& effect, v1::Task task);
  /// If there is an earlier response for the same prompt index, it is sent along as a draft.
  void Generate(const StartTask& effect);
  void FillGenerate(const StartTask& effect, v1::Generate* generate);
  void Score(const StartTask& effect);
  void SendScore(const StartTask& effect, const v1::Trajectory& payload) const;
  void ScoreWithRead(const StartTask& effect, const absl::StatusOr<v1::Trajectory>& read);
  void FillUpdate(const StartTask& effect, v1::Update* update) const;
  void FillPublish(const StartTask& effect, v1::Publish* publish) const;

  const JobScope* const scope_;
  const Sources from_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_JOB_TASK_SENDER_H_
