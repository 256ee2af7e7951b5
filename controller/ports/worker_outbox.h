// Ports of a job: the way to its workers.
#ifndef BATON_CONTROLLER_PORTS_WORKER_OUTBOX_H_
#define BATON_CONTROLLER_PORTS_WORKER_OUTBOX_H_

#include <string>

#include "baton/v1/worker_service.pb.h"

namespace baton::controller {

/// Sends messages to workers, and knows what each worker said of itself in its last Hello.
/// Thread-safe. No method blocks.
class WorkerOutbox {
 public:
  virtual ~WorkerOutbox() = default;

  /// Drops the message when the worker is not attached. A worker that comes back reports what it
  /// runs, and missing tasks are sent again.
  virtual void Send(const std::string& worker, v1::ControllerMessage message) = 0;
  /// True when the worker named the feature (Hello.features).
  virtual bool HasFeature(const std::string& worker, const std::string& feature) const = 0;
  /// The address where ranks meet when this worker is their first; empty: it never named one.
  virtual std::string GroupStoreOf(const std::string& worker) const = 0;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_PORTS_WORKER_OUTBOX_H_
