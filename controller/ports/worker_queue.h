// Ports of a job: the queue that grants workers.
#ifndef BATON_CONTROLLER_PORTS_WORKER_QUEUE_H_
#define BATON_CONTROLLER_PORTS_WORKER_QUEUE_H_

#include <string>

#include "controller/core/job/events.h"

namespace baton::controller {

/// Takes the requests of a job's core to the queue. The answers come back as events of the job.
/// Thread-safe. No method blocks.
class WorkerQueue {
 public:
  virtual ~WorkerQueue() = default;

  virtual void Need(const std::string& job, const NeedWorkers& need) = 0;
  virtual void Return(const std::string& job, const ReturnWorker& worker) = 0;
  /// The job's versions come from this worker from now on.
  virtual void Publishes(const std::string& job, const std::string& worker) = 0;
  /// The job ended or is paused. The queue forgets its need.
  virtual void Leave(const std::string& job) = 0;
  /// The job is quarantined, perhaps while it holds workers: they are taken from it without a
  /// release. Their streams are closed, and when they attach anew, they are told to give up the
  /// job's roles.
  virtual void Quarantine(const std::string& job) = 0;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_PORTS_WORKER_QUEUE_H_
