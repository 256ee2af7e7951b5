#include "controller/status/status_router.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "controller/status/event_collector.h"
#include "controller/status/metrics_text.h"
#include "controller/status/openapi.h"
#include "controller/status/status_page.h"
#include "google/protobuf/util/json_util.h"
#include "nlohmann/json.hpp"
#include "sdk/common/rpc/error.h"

namespace baton::status {
namespace {

constexpr char kJson[] = "application/json";
constexpr char kText[] = "text/plain; charset=utf-8";
constexpr size_t kMaxEvents = 1000;

std::string ToJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string json;
  if (!google::protobuf::util::MessageToJsonString(message, &json, options).ok()) return "{}";
  return json;
}

// A controller callback that answers with the message as JSON.
template <typename Message>
controller::Callback<Message> Json(AnswerDone done) {
  return [done = std::move(done)](absl::StatusOr<Message> message) {
    if (!message.ok()) return done(ErrorAnswer(message.status()));
    done({200, kJson, ToJson(*message) + "\n"});
  };
}

int HttpCode(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return 200;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return 400;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kAborted:
      return 409;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kUnavailable:
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

HttpAnswer ErrorJson(int code, const std::string& status, const std::string& reason,
                     absl::string_view message) {
  nlohmann::json error = {{"code", code}, {"message", std::string(message)}};
  if (!status.empty()) error["status"] = status;
  if (!reason.empty()) error["reason"] = reason;
  const auto replace = nlohmann::json::error_handler_t::replace;
  return {code, kJson, nlohmann::json{{"error", error}}.dump(2, ' ', false, replace) + "\n"};
}

HttpAnswer NotFound() {
  return ErrorAnswer(404,
                     "there is nothing at this address; /api/v1/openapi.json lists what there is");
}

HttpAnswer OtherProject(const std::string& project) {
  return ErrorAnswer(403, absl::StrCat("this token is for project ", project, " only"));
}

// "RUNNING", "running" and "STATE_RUNNING" -> prefix + "RUNNING".
std::string EnumName(const std::string& prefix, const std::string& text) {
  std::string upper;
  for (char c : text) upper.push_back(c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c);
  return upper.rfind(prefix, 0) == 0 ? upper : prefix + upper;
}

absl::StatusOr<v1::ListJobsRequest> JobsRequest(const HttpRoute& route,
                                                const RequestTarget& target) {
  v1::ListJobsRequest request;
  request.set_project(target.Text("project"));
  request.set_page_token(target.Text("page_token"));
  auto size = route.Number(target, "page_size");
  if (!size.ok()) return size.status();
  request.set_page_size(static_cast<int32_t>(*size));
  for (absl::string_view text : absl::StrSplit(target.Text("state"), ',', absl::SkipEmpty())) {
    v1::Job::State state;
    if (!v1::Job::State_Parse(EnumName("STATE_", std::string(text)), &state)) {
      return absl::InvalidArgumentError(
          absl::StrCat("state: ", text, " is not a job state, such as running or succeeded"));
    }
    request.add_states(state);
  }
  return request;
}

absl::StatusOr<v1::ListMetricsRequest> MetricsRequest(const HttpRoute& route,
                                                      const std::string& job,
                                                      const RequestTarget& target) {
  v1::ListMetricsRequest request;
  request.set_name(job);
  auto after = route.Number(target, "after_step");
  if (!after.ok()) return after.status();
  auto size = route.Number(target, "page_size");
  if (!size.ok()) return size.status();
  request.set_after_step(*after);
  request.set_page_token(target.Text("page_token"));
  request.set_page_size(static_cast<int32_t>(*size));
  for (absl::string_view prefix : absl::StrSplit(target.Text("prefix"), ',', absl::SkipEmpty())) {
    request.add_prefixes(std::string(prefix));
  }
  return request;
}

absl::StatusOr<v1::ListTrajectoriesRequest> TrajectoriesRequest(const HttpRoute& route,
                                                                const std::string& job,
                                                                const RequestTarget& target) {
  v1::ListTrajectoriesRequest request;
  request.set_name(job);
  request.set_page_token(target.Text("page_token"));
  auto size = route.Number(target, "page_size");
  if (!size.ok()) return size.status();
  auto step = route.Number(target, "step");
  if (!step.ok()) return step.status();
  request.set_page_size(static_cast<int32_t>(*size));
  request.set_step(*step);
  const std::string purpose = target.Text("purpose");
  v1::Purpose value = v1::PURPOSE_UNSPECIFIED;
  if (!purpose.empty()) v1::Purpose_Parse(EnumName("PURPOSE_", purpose), &value);
  request.set_purpose(value);
  return request;
}

// For a list without filters.
template <typename Request>
absl::StatusOr<Request> PageRequest(const HttpRoute& route, const RequestTarget& target) {
  Request request;
  auto size = route.Number(target, "page_size");
  if (!size.ok()) return size.status();
  request.set_page_size(static_cast<int32_t>(*size));
  request.set_page_token(target.Text("page_token"));
  return request;
}

void AnswerEvents(controller::ControllerInterface* controller, const HttpRoute& route,
                  const std::string& job, const RequestTarget& target, AnswerDone done) {
  auto after = route.Number(target, "after");
  if (!after.ok()) return done(ErrorAnswer(after.status()));
  CollectEvents(controller, job, *after, kMaxEvents,
                [done = std::move(done)](absl::StatusOr<std::vector<v1::JobEvent>> events) {
                  if (!events.ok()) return done(ErrorAnswer(events.status()));
                  std::string body = "{\"events\":[";
                  for (const v1::JobEvent& event : *events) {
                    absl::StrAppend(&body, body.back() == '[' ? "" : ",", ToJson(event));
                  }
                  done({200, kJson, body + "]}\n"});
                });
}

// Fields that a list of jobs leaves out by default: they are nine tenths of its bytes.
void Shorten(v1::Job* job) {
  job->clear_spec();
  job->clear_effective_spec();
  job->clear_dataflow();
  job->clear_metrics();
  job->clear_workers();
}

}  // namespace

HttpAnswer ErrorAnswer(const absl::Status& status) {
  return ErrorJson(HttpCode(status.code()), absl::StatusCodeToString(status.code()),
                   ErrorReason(status), status.message());
}

HttpAnswer ErrorAnswer(int code, absl::string_view message) {
  return ErrorJson(code, "", "", message);
}

bool IsProbe(absl::string_view target) { return target == "/healthz" || target == "/readyz"; }

void StatusRouter::Answer(absl::string_view target, AnswerDone done,
                          const std::string& project) const {
  auto parsed = RequestTarget::Parse(target);
  if (!parsed.ok()) return done(ErrorAnswer(parsed.status()));
  const auto match = MatchRoute(parsed->path);
  if (!match.has_value()) return done(NotFound());
  const HttpRoute& route = *match->route;
  // Prometheus and probes may send parameters of their own
  if (absl::StartsWith(route.path, "/api/")) {
    const absl::Status known = CheckParameters(route, *parsed);
    if (!known.ok()) return done(ErrorAnswer(known));
  }
  if (route.id == HttpRouteId::kJobs) return AnswerJobs(route, *parsed, project, std::move(done));
  if (match->job.empty()) {
    const bool whole_cluster =
        route.id == HttpRouteId::kMetrics || route.id == HttpRouteId::kWorkers;
    if (whole_cluster && project != "*") return done(OtherProject(project));
    return AnswerCluster(route, *parsed, std::move(done));
  }
  const std::string of = !match->project.empty() ? match->project
                         : project == "*"        ? "default"
                                                 : project;
  if (project != "*" && of != project) return done(OtherProject(project));
  AnswerJob(route, absl::StrCat("projects/", of, "/jobs/", match->job), *parsed, std::move(done));
}

void StatusRouter::AnswerCluster(const HttpRoute& route, const RequestTarget& target,
                                 AnswerDone done) const {
  switch (route.id) {
    case HttpRouteId::kPage:
      return done({200, "text/html; charset=utf-8", kStatusPage});
    case HttpRouteId::kHealthz:
      return done({200, kText, "ok\n"});
    case HttpRouteId::kReadyz: {
      const absl::Status ready = controller_->Ready();
      if (ready.ok()) return done({200, kText, "ok\n"});
      return done({503, kText, absl::StrCat("store: ", ready.message(), "\n")});
    }
    case HttpRouteId::kMetrics:
      return controller_->Metrics(
          [done = std::move(done),
           more = gauges_ ? gauges_() : std::vector<controller::GaugeSample>()](
              std::vector<controller::GaugeSample> samples) {
            samples.insert(samples.end(), more.begin(), more.end());
            done({200, kMetricsContentType, MetricsText(samples)});
          });
    case HttpRouteId::kOpenApi: {
      static const auto* const kDocument = new std::string(OpenApiJson());
      return done({200, kJson, *kDocument + "\n"});
    }
    case HttpRouteId::kWorkers: {
      auto request = PageRequest<v1::ListWorkersRequest>(route, target);
      if (!request.ok()) return done(ErrorAnswer(request.status()));
      return controller_->ListWorkers(*std::move(request),
                                      Json<v1::ListWorkersResponse>(std::move(done)));
    }
    default:
      done(NotFound());
  }
}

void StatusRouter::AnswerJobs(const HttpRoute& route, const RequestTarget& target,
                              const std::string& project, AnswerDone done) const {
  auto request = JobsRequest(route, target);
  if (!request.ok()) return done(ErrorAnswer(request.status()));
  if (project != "*") {
    const std::string& wanted = request->project();
    if (!wanted.empty() && wanted != "-" && wanted != project) return done(OtherProject(project));
    request->set_project(project);
  }
  const bool full = target.Text("view") == "full";
  controller_->ListJobs(
      *std::move(request),
      [full, answer = Json<v1::ListJobsResponse>(std::move(done))](auto response) {
        if (response.ok() && !full) {
          for (v1::Job& job : *response->mutable_jobs()) Shorten(&job);
        }
        answer(std::move(response));
      });
}

void StatusRouter::AnswerJob(const HttpRoute& route, const std::string& job,
                             const RequestTarget& target, AnswerDone done) const {
  switch (route.id) {
    case HttpRouteId::kJob: {
      v1::GetJobRequest request;
      request.set_name(job);
      return controller_->GetJob(std::move(request), Json<v1::Job>(std::move(done)));
    }
    case HttpRouteId::kJobMetrics: {
      auto request = MetricsRequest(route, job, target);
      if (!request.ok()) return done(ErrorAnswer(request.status()));
      return controller_->ListMetrics(*std::move(request),
                                      Json<v1::ListMetricsResponse>(std::move(done)));
    }
    case HttpRouteId::kJobTrajectories: {
      auto request = TrajectoriesRequest(route, job, target);
      if (!request.ok()) return done(ErrorAnswer(request.status()));
      return controller_->ListTrajectories(*std::move(request),
                                           Json<v1::ListTrajectoriesResponse>(std::move(done)));
    }
    case HttpRouteId::kJobEvents:
      return AnswerEvents(controller_, route, job, target, std::move(done));
    case HttpRouteId::kJobCheckpoints: {
      auto request = PageRequest<v1::ListCheckpointsRequest>(route, target);
      if (!request.ok()) return done(ErrorAnswer(request.status()));
      request->set_name(job);
      return controller_->ListCheckpoints(*std::move(request),
                                          Json<v1::ListCheckpointsResponse>(std::move(done)));
    }
    case HttpRouteId::kJobExplain: {
      v1::ExplainJobRequest request;
      request.set_name(job);
      return controller_->ExplainJob(std::move(request),
                                     Json<v1::ExplainJobResponse>(std::move(done)));
    }
    default:
      done(NotFound());
  }
}

}  // namespace baton::status
