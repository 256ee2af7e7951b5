// Every HTTP address of the controller. The router reads this table; the OpenAPI description and
// docs/http.md are generated from it.
#ifndef BATON_CONTROLLER_STATUS_HTTP_ROUTES_H_
#define BATON_CONTROLLER_STATUS_HTTP_ROUTES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "controller/status/request_target.h"

namespace baton::status {

/// A query parameter.
struct HttpParameter {
  std::string name;
  std::string meaning;  ///< One sentence; for a text, with its default.
  bool number = false;  ///< A whole number in [min, max]; otherwise a text.
  int64_t min = 0;
  int64_t max = 0;
  int64_t fallback = 0;            ///< The value if the number is absent.
  std::vector<std::string> names;  ///< The allowed texts; empty: any text.
};

enum class HttpRouteId {
  kPage,
  kHealthz,
  kReadyz,
  kMetrics,
  kOpenApi,
  kWorkers,
  kJobs,
  kJob,
  kJobMetrics,
  kJobTrajectories,
  kJobEvents,
  kJobCheckpoints,
  kJobExplain,
};

struct HttpRoute {
  HttpRouteId id;
  /// "/api/v1/jobs/{job}/metrics". An address below /api/v1/jobs/ also exists below
  /// /api/v1/projects/{project}/jobs/.
  std::string path;
  std::string summary;  ///< One sentence.
  /// The answer: a message of baton.v1 as JSON, e.g. "baton.v1.Job"; otherwise its media type.
  std::string answer;
  std::vector<HttpParameter> parameters;

  bool answers_message() const;
  /// Finds a parameter; the name must be one of `parameters`.
  const HttpParameter& Parameter(absl::string_view name) const;
  /// The parameter's value in `target`, checked against its bounds. InvalidArgument.
  absl::StatusOr<int64_t> Number(const RequestTarget& target, absl::string_view name) const;
};

/// In the order of the documentation.
const std::vector<HttpRoute>& HttpRoutes();

struct HttpMatch {
  const HttpRoute* route;
  std::string project;  ///< From the path; empty: the path has none.
  std::string job;
};

/// The route of a path, or nothing.
std::optional<HttpMatch> MatchRoute(const std::vector<std::string>& path);

/// InvalidArgument names a parameter that the route does not have, and the parameters that it has.
absl::Status CheckParameters(const HttpRoute& route, const RequestTarget& target);

/// "/api/v1/jobs/{job}" -> "/api/v1/projects/{project}/jobs/{job}"; empty for other paths.
std::string ProjectPath(const HttpRoute& route);

}  // namespace baton::status

#endif  // BATON_CONTROLLER_STATUS_HTTP_ROUTES_H_
