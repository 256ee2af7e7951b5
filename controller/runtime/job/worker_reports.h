// Workers' reports on the tasks of one job: pieces of responses, and results.
#ifndef BATON_CONTROLLER_RUNTIME_JOB_WORKER_REPORTS_H_
#define BATON_CONTROLLER_RUNTIME_JOB_WORKER_REPORTS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "baton/v1/worker_service.pb.h"
#include "controller/runtime/job/checkpoint_saves.h"
#include "controller/runtime/job/job_scope.h"
#include "controller/runtime/job/job_threads.h"
#include "controller/runtime/job/loaded_data.h"
#include "controller/runtime/job/payloads.h"
#include "controller/runtime/job/turn_log.h"
#include "controller/runtime/payloads/early_responses.h"

namespace baton::controller {

/// Turns reports into events of the core, and their contents into payloads. A result that the core
/// does not want any more is only acknowledged. On the job's strand.
class WorkerReports {
 public:
  WorkerReports(const JobScope* scope, JobThreads* threads, TurnLog* turns, Payloads* payloads,
                const LoadedData* data, CheckpointSaves* saves)
      : scope_(scope),
        threads_(threads),
        turns_(turns),
        payloads_(payloads),
        data_(data),
        saves_(saves) {}

  void TakeResult(const std::string& worker, const TaskRef& ref, v1::TaskResult result);
  void TakeProgress(const std::string& worker, const TaskRef& ref, const v1::Progress& progress);
  /// Takes results received before recovery, in their order, once the core knows its trajectories.
  /// Call it after each turn.
  void TakeEarly();
  /// The job has ended or is paused: refuses results received before recovery.
  void RefuseEarly();
  /// The job was quarantined: nothing leaves.
  void ForgetEarly();

 private:
  /// The only place that checks whether a result is wanted: when it arrives, and again once its
  /// payload is in the log, because the job may have gone on meanwhile. False: it was refused.
  bool IsWanted(const std::string& worker, const TaskRef& ref);
  void Refuse(const std::string& worker, const TaskRef& ref);
  void StoreResponse(TaskDone done, v1::TaskResult result);
  void StoreColumn(TaskDone done, const v1::TaskResult& result);
  /// Writes a payload to the log. Then, if the log has it and the result is still wanted, `keep`
  /// runs and the core gets the result.
  void StoreThenRun(TaskDone done, PayloadCache::Payload payload, std::function<void()> keep);
  int64_t MaxResponseTokens() const;  // no bound if the spec has none

  const JobScope* const scope_;
  JobThreads* const threads_;
  TurnLog* const turns_;
  Payloads* const payloads_;
  const LoadedData* const data_;
  CheckpointSaves* const saves_;
  EarlyResponses early_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_JOB_WORKER_REPORTS_H_
