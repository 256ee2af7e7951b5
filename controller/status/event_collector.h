// Collection of a job's past events from a subscription, which would otherwise never end.
#ifndef BATON_CONTROLLER_STATUS_EVENT_COLLECTOR_H_
#define BATON_CONTROLLER_STATUS_EVENT_COLLECTOR_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/runtime/controller/controller_interface.h"

namespace baton::status {

using EventsDone = std::function<void(absl::StatusOr<std::vector<v1::JobEvent>>)>;

/// Calls `done` once, from a thread of the controller, with at most `limit` stored events: those
/// after `after_revision`, up to the job's newest event at the time of the call.
void CollectEvents(controller::ControllerInterface* controller, const std::string& job,
                   int64_t after_revision, size_t limit, EventsDone done);

}  // namespace baton::status

#endif  // BATON_CONTROLLER_STATUS_EVENT_COLLECTOR_H_
