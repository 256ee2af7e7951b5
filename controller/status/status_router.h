// Router of HTTP requests, which answers each from the controller's state.
//
// http_routes.h has every address; GET /api/v1/openapi.json and docs/http.md describe them. The
// router only reads.
//
// JSON is protobuf's, with the field names of the protos. Errors are JSON too:
// {"error": {"code": 404, "status": "NOT_FOUND", "reason": "JOB_NOT_FOUND", "message": …}}.
#ifndef BATON_CONTROLLER_STATUS_STATUS_ROUTER_H_
#define BATON_CONTROLLER_STATUS_STATUS_ROUTER_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "controller/runtime/controller/controller_interface.h"
#include "controller/status/http_routes.h"
#include "controller/status/request_target.h"

namespace baton::status {

struct HttpAnswer {
  int code = 200;
  std::string content_type;
  std::string body;
};

using AnswerDone = std::function<void(HttpAnswer)>;
using MoreGauges = std::function<std::vector<controller::GaugeSample>()>;

/// Stateless; any thread. `controller` outlives it. `gauges`: more samples for /metrics; may be
/// null.
class StatusRouter {
 public:
  explicit StatusRouter(controller::ControllerInterface* controller, MoreGauges gauges = nullptr)
      : controller_(controller), gauges_(std::move(gauges)) {}

  /// Calls `done` once: at once, or later from a thread of the controller. `project`: answers show
  /// only this project; "*": all projects and the cluster.
  void Answer(absl::string_view target, AnswerDone done, const std::string& project = "*") const;

 private:
  void AnswerCluster(const HttpRoute& route, const RequestTarget& target, AnswerDone done) const;
  void AnswerJobs(const HttpRoute& route, const RequestTarget& target, const std::string& project,
                  AnswerDone done) const;
  void AnswerJob(const HttpRoute& route, const std::string& job, const RequestTarget& target,
                 AnswerDone done) const;

  controller::ControllerInterface* const controller_;
  const MoreGauges gauges_;
};

/// The error as JSON, with the HTTP code for its status.
HttpAnswer ErrorAnswer(const absl::Status& status);
/// An error that only HTTP has, e.g. 405.
HttpAnswer ErrorAnswer(int code, absl::string_view message);

/// True for the paths that need no token: /healthz and /readyz.
bool IsProbe(absl::string_view target);

}  // namespace baton::status

#endif  // BATON_CONTROLLER_STATUS_STATUS_ROUTER_H_
