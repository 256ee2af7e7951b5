#include "controller/status/http_routes.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace baton::status {
namespace {

constexpr absl::string_view kJobPath = "/api/v1/jobs/{job}";

HttpParameter NumberParameter(std::string name, int64_t min, int64_t max, int64_t fallback,
                              std::string meaning) {
  return {std::move(name), std::move(meaning), true, min, max, fallback, {}};
}

HttpParameter TextParameter(std::string name, std::string meaning,
                            std::vector<std::string> names = {}) {
  return {std::move(name), std::move(meaning), false, 0, 0, 0, std::move(names)};
}

HttpParameter PageToken() {
  return TextParameter("page_token", "`next_page_token` of the last answer to the same question.");
}

std::vector<HttpRoute> MakeRoutes() {
  using Id = HttpRouteId;
  const std::string json = "application/json", text = "text/plain";
  std::vector<HttpRoute> routes;
  routes.push_back({Id::kPage, "/", "The status page, for a browser.", "text/html", {}});
  routes.push_back(
      {Id::kHealthz, "/healthz", "200 while the process lives. Needs no token.", text, {}});
  routes.push_back({Id::kReadyz,
                    "/readyz",
                    "200 while the controller can serve; 503 with the reason while it cannot. "
                    "Needs no token.",
                    text,
                    {}});
  routes.push_back(
      {Id::kMetrics,
       "/metrics",
       "Metrics in the format of Prometheus. `baton_job_metric` is the newest value "
       "of each metric of a job, by name. The label `baton_job` is the job's full name (`job` is "
       "Prometheus's own).",
       text,
       {}});
  routes.push_back(
      {Id::kOpenApi, "/api/v1/openapi.json", "This description, as OpenAPI 3.0.", json, {}});
  routes.push_back(
      {Id::kWorkers,
       "/api/v1/workers",
       "Every worker that the controller knows, by its id.",
       "baton.v1.ListWorkersResponse",
       {NumberParameter("page_size", 1, 1000, 1000, "Most workers of one answer."), PageToken()}});
  routes.push_back(
      {Id::kJobs,
       "/api/v1/jobs",
       "Jobs, the newest first. Without `view=full` a job comes without its spec, effective_spec, "
       "dataflow, metrics and workers.",
       "baton.v1.ListJobsResponse",
       {TextParameter(
            "project",
            "Whose jobs; `-`: of all projects. Default: `default`, or the token's project."),
        TextParameter("state",
                      "Only these states, with commas between them, e.g. `running,failed`."),
        TextParameter("view", "`full`: every field of each job. Default: `short`.",
                      {"short", "full"}),
        NumberParameter("page_size", 1, 1000, 100, "Most jobs of one answer."), PageToken()}});
  const std::string job(kJobPath);
  routes.push_back({Id::kJob, job, "One job with every field.", "baton.v1.Job", {}});
  routes.push_back(
      {Id::kJobMetrics,
       job + "/metrics",
       "Metrics of past steps, in the order of steps.",
       "baton.v1.ListMetricsResponse",
       {TextParameter("prefix",
                      "Only names that begin with one of these, with commas between them."),
        NumberParameter("after_step", 0, INT64_MAX, 0, "Only later steps."),
        NumberParameter("page_size", 1, 100000, 1000, "Most steps of one answer."), PageToken()}});
  routes.push_back({Id::kJobTrajectories,
                    job + "/trajectories",
                    "What the model wrote, the newest first.",
                    "baton.v1.ListTrajectoriesResponse",
                    {TextParameter("purpose", "Why it was written. Default: train and eval.",
                                   {"train", "eval", "baseline", "lookahead"}),
                     NumberParameter("step", 0, INT64_MAX, 0, "Only of this step; 0: of all."),
                     NumberParameter("page_size", 1, 1000, 20, "Most trajectories of one answer."),
                     PageToken()}});
  routes.push_back(
      {Id::kJobEvents,
       job + "/events",
       "What happened to the job, oldest first: at most 1000 of the events that are "
       "kept, each as baton.v1.JobEvent in the list `events`.",
       json,
       {NumberParameter("after", 0, INT64_MAX, 0, "Only events of a later revision.")}});
  routes.push_back({Id::kJobCheckpoints,
                    job + "/checkpoints",
                    "Complete checkpoints, the newest first.",
                    "baton.v1.ListCheckpointsResponse",
                    {NumberParameter("page_size", 1, 1000, 1000, "Most checkpoints of one answer."),
                     PageToken()}});
  routes.push_back({Id::kJobExplain,
                    job + "/explain",
                    "What the job waits for, root cause first, and how far each node is.",
                    "baton.v1.ExplainJobResponse",
                    {}});
  return routes;
}

std::vector<std::string> Segments(absl::string_view path) {
  return absl::StrSplit(path, '/', absl::SkipEmpty());
}

}  // namespace

bool HttpRoute::answers_message() const { return absl::StartsWith(answer, "baton.v1."); }

const HttpParameter& HttpRoute::Parameter(absl::string_view name) const {
  for (const HttpParameter& parameter : parameters) {
    if (parameter.name == name) return parameter;
  }
  std::abort();  // a bug of this program
}

absl::StatusOr<int64_t> HttpRoute::Number(const RequestTarget& target,
                                          absl::string_view name) const {
  const HttpParameter& parameter = Parameter(name);
  return target.Number(parameter.name, parameter.min, parameter.max, parameter.fallback);
}

const std::vector<HttpRoute>& HttpRoutes() {
  static const auto* const kRoutes = new std::vector<HttpRoute>(MakeRoutes());
  return *kRoutes;
}

std::optional<HttpMatch> MatchRoute(const std::vector<std::string>& path) {
  HttpMatch match{nullptr, "", ""};
  std::vector<std::string> rest = path;
  if (rest.size() > 4 && rest[0] == "api" && rest[1] == "v1" && rest[2] == "projects" &&
      rest[4] == "jobs") {
    match.project = rest[3];
    rest.erase(rest.begin() + 2, rest.begin() + 4);
    if (rest.size() < 4) return std::nullopt;  // the list takes the project as a parameter
  }
  for (const HttpRoute& route : HttpRoutes()) {
    const std::vector<std::string> wanted = Segments(route.path);
    if (wanted.size() != rest.size()) continue;
    bool same = true;
    for (size_t i = 0; i < rest.size(); ++i) same &= wanted[i] == "{job}" || wanted[i] == rest[i];
    if (!same) continue;
    match.route = &route;
    if (rest.size() > 3) match.job = rest[3];
    return match;
  }
  return std::nullopt;
}

absl::Status CheckParameters(const HttpRoute& route, const RequestTarget& target) {
  std::vector<std::string> names;
  for (const HttpParameter& parameter : route.parameters) names.push_back(parameter.name);
  for (const auto& parameter : target.query) {
    const std::string& name = parameter.first;
    const std::string& value = parameter.second;
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(route.path, " has no parameter '", name, "'; it has ",
                       names.empty() ? "none" : absl::StrJoin(names, ", ")));
    }
    const std::vector<std::string>& allowed = route.Parameter(name).names;
    if (value.empty() || allowed.empty()) continue;
    const bool known = std::any_of(allowed.begin(), allowed.end(), [&](const std::string& one) {
      return absl::EqualsIgnoreCase(one, absl::StripPrefix(value, "PURPOSE_"));
    });
    if (!known) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": ", value, " is not one of: ", absl::StrJoin(allowed, ", ")));
    }
  }
  return absl::OkStatus();
}

std::string ProjectPath(const HttpRoute& route) {
  if (!absl::StartsWith(route.path, kJobPath)) return "";
  return absl::StrCat("/api/v1/projects/{project}", absl::StripPrefix(route.path, "/api/v1"));
}

}  // namespace baton::status
