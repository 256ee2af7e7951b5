// A job's past events, out of a subscription that would go on for ever.
#ifndef BATON_CONTROLLER_STATUS_EVENT_COLLECTOR_H_
#define BATON_CONTROLLER_STATUS_EVENT_COLLECTOR_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/runtime/controller_interface.h"

namespace baton::status {

using EventsDone = std::function<void(absl::StatusOr<std::vector<v1::JobEvent>>)>;

/// Calls `done` once, from a thread of the controller, with the kept events after
/// `after_revision` up to the job's newest at the time of the call, `limit` at most.
void CollectEvents(controller::ControllerInterface* controller, const std::string& job,
                   int64_t after_revision, size_t limit, EventsDone done);

}  // namespace baton::status

#endif  // BATON_CONTROLLER_STATUS_EVENT_COLLECTOR_H_
