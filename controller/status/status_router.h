// Answers one HTTP request from the controller's state.
//
//   GET /                          the page for people
//   GET /healthz, /readyz          the process lives; it can serve (503 and why otherwise)
//   GET /metrics                   Prometheus
//   GET /api/v1/workers            ?page_size=&page_token=
//   GET /api/v1/jobs               ?project=&state=&page_size=&page_token=
//   GET /api/v1/jobs/{job}         and below it:
//                                  /metrics ?prefix=&after_step=&page_size=&page_token=,
//                                  /trajectories ?purpose=&step=&page_size=&page_token=,
//                                  /checkpoints ?page_size=&page_token=, /events ?after=, /explain
//   GET /api/v1/projects/{p}/jobs/{job}…   the same for a project that is not `default`
//
// JSON is protobuf's, with the field names of the protos. Errors are JSON too:
// {"error": {"code": 404, "status": "NOT_FOUND", "reason": "JOB_NOT_FOUND", "message": …}}.
#ifndef BATON_CONTROLLER_STATUS_STATUS_ROUTER_H_
#define BATON_CONTROLLER_STATUS_STATUS_ROUTER_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "controller/runtime/controller_interface.h"
#include "controller/status/request_target.h"

namespace baton::status {

struct HttpAnswer {
  int code = 200;
  std::string content_type;
  std::string body;
};

using AnswerDone = std::function<void(HttpAnswer)>;

/// Stateless; any thread. `controller` outlives it.
class StatusRouter {
 public:
  explicit StatusRouter(controller::ControllerInterface* controller) : controller_(controller) {}

  /// Calls `done` once: at once, or later from a thread of the controller.
  /// `project`: the only one that is told of; "*": all, and the cluster.
  void Answer(absl::string_view target, AnswerDone done, const std::string& project = "*") const;

 private:
  void AnswerApi(const RequestTarget& target, const std::string& project, AnswerDone done) const;
  void AnswerJobs(const RequestTarget& target, const std::string& project, AnswerDone done) const;
  void AnswerJob(const std::string& job, const std::string& part, const RequestTarget& target,
                 AnswerDone done) const;

  controller::ControllerInterface* const controller_;
};

/// The error as JSON, with the HTTP code that stands for the status.
HttpAnswer ErrorAnswer(const absl::Status& status);
/// An error that HTTP alone knows, e.g. 405.
HttpAnswer ErrorAnswer(int code, absl::string_view message);

/// True for the paths that need no token: /healthz and /readyz.
bool IsProbe(absl::string_view target);

}  // namespace baton::status

#endif  // BATON_CONTROLLER_STATUS_STATUS_ROUTER_H_
