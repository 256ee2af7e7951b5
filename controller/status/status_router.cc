#include "controller/status/status_router.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "controller/status/event_collector.h"
#include "controller/status/metrics_text.h"
#include "controller/status/status_page.h"
#include "google/protobuf/util/json_util.h"
#include "nlohmann/json.hpp"
#include "sdk/rpc/error.h"

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
    done({200, kJson, ToJson(*message)});
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
  return {code, kJson, nlohmann::json{{"error", error}}.dump(2, ' ', false, replace)};
}

HttpAnswer NotFound() {
  return ErrorAnswer(404, "there is nothing at this address; see /, /metrics and /api/v1/jobs");
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

absl::StatusOr<v1::ListJobsRequest> JobsRequest(const RequestTarget& target) {
  v1::ListJobsRequest request;
  request.set_project(target.Text("project"));
  request.set_page_token(target.Text("page_token"));
  auto size = target.Number("page_size", 1, 1000, 100);
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

absl::StatusOr<v1::ListMetricsRequest> MetricsRequest(const std::string& job,
                                                      const RequestTarget& target) {
  v1::ListMetricsRequest request;
  request.set_name(job);
  auto after = target.Number("after_step", 0, INT64_MAX, 0);
  if (!after.ok()) return after.status();
  auto size = target.Number("page_size", 1, 100000, 1000);
  if (!size.ok()) return size.status();
  request.set_after_step(*after);
  request.set_page_token(target.Text("page_token"));
  request.set_page_size(static_cast<int32_t>(*size));
  for (absl::string_view prefix : absl::StrSplit(target.Text("prefix"), ',', absl::SkipEmpty())) {
    request.add_prefixes(std::string(prefix));
  }
  return request;
}

absl::StatusOr<v1::ListTrajectoriesRequest> TrajectoriesRequest(const std::string& job,
                                                                const RequestTarget& target) {
  v1::ListTrajectoriesRequest request;
  request.set_name(job);
  request.set_page_token(target.Text("page_token"));
  auto size = target.Number("page_size", 1, 1000, 20);
  if (!size.ok()) return size.status();
  auto step = target.Number("step", 0, INT64_MAX, 0);
  if (!step.ok()) return step.status();
  request.set_page_size(static_cast<int32_t>(*size));
  request.set_step(*step);
  const std::string purpose = target.Text("purpose");
  v1::Purpose value = v1::PURPOSE_UNSPECIFIED;
  if (!purpose.empty() && !v1::Purpose_Parse(EnumName("PURPOSE_", purpose), &value)) {
    return absl::InvalidArgumentError(
        absl::StrCat("purpose: ", purpose, " is none of train, eval, baseline, lookahead"));
  }
  request.set_purpose(value);
  return request;
}

// Of a list without filters.
template <typename Request>
absl::StatusOr<Request> PageRequest(const RequestTarget& target) {
  Request request;
  auto size = target.Number("page_size", 1, 1000, 1000);
  if (!size.ok()) return size.status();
  request.set_page_size(static_cast<int32_t>(*size));
  request.set_page_token(target.Text("page_token"));
  return request;
}

void AnswerEvents(controller::ControllerInterface* controller, const std::string& job,
                  const RequestTarget& target, AnswerDone done) {
  auto after = target.Number("after", 0, INT64_MAX, 0);
  if (!after.ok()) return done(ErrorAnswer(after.status()));
  CollectEvents(controller, job, *after, kMaxEvents,
                [done = std::move(done)](absl::StatusOr<std::vector<v1::JobEvent>> events) {
                  if (!events.ok()) return done(ErrorAnswer(events.status()));
                  std::string body = "{\"events\":[";
                  for (const v1::JobEvent& event : *events) {
                    absl::StrAppend(&body, body.back() == '[' ? "" : ",", ToJson(event));
                  }
                  done({200, kJson, body + "]}"});
                });
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
  const std::vector<std::string>& path = parsed->path;
  if (path.empty()) return done({200, "text/html; charset=utf-8", kStatusPage});
  if (path[0] == "api") return AnswerApi(*parsed, project, std::move(done));
  if (path.size() > 1) return done(NotFound());
  if (path[0] == "healthz") return done({200, kText, "ok\n"});
  if (path[0] == "readyz") {
    const absl::Status ready = controller_->Ready();
    if (ready.ok()) return done({200, kText, "ok\n"});
    return done({503, kText, absl::StrCat("store: ", ready.message(), "\n")});
  }
  if (path[0] != "metrics") return done(NotFound());
  if (project != "*") return done(OtherProject(project));
  controller_->Metrics([done = std::move(done)](std::vector<controller::GaugeSample> samples) {
    done({200, kMetricsContentType, MetricsText(samples)});
  });
}

// Path: api, v1, workers | jobs[, job[, part]] | projects, p, jobs, job[, part].
void StatusRouter::AnswerApi(const RequestTarget& target, const std::string& project,
                             AnswerDone done) const {
  const std::vector<std::string>& path = target.path;
  if (path.size() < 3 || path[1] != "v1") return done(NotFound());
  if (path[2] == "workers" && path.size() == 3) {
    if (project != "*") return done(OtherProject(project));
    auto request = PageRequest<v1::ListWorkersRequest>(target);
    if (!request.ok()) return done(ErrorAnswer(request.status()));
    return controller_->ListWorkers(*std::move(request),
                                    Json<v1::ListWorkersResponse>(std::move(done)));
  }
  if (path[2] == "jobs" && path.size() == 3) return AnswerJobs(target, project, std::move(done));
  const bool in_project = path[2] == "projects" && path.size() > 5 && path[4] == "jobs";
  const size_t at = in_project ? 5 : 3;  // where the job's id stands
  if ((path[2] != "jobs" && !in_project) || path.size() > at + 2) return done(NotFound());
  const std::string of = in_project ? path[3] : project == "*" ? "default" : project;
  if (project != "*" && of != project) return done(OtherProject(project));
  const std::string job = absl::StrCat("projects/", of, "/jobs/", path[at]);
  AnswerJob(job, path.size() > at + 1 ? path[at + 1] : "", target, std::move(done));
}

void StatusRouter::AnswerJobs(const RequestTarget& target, const std::string& project,
                              AnswerDone done) const {
  auto request = JobsRequest(target);
  if (!request.ok()) return done(ErrorAnswer(request.status()));
  if (project != "*") {
    const std::string& wanted = request->project();
    if (!wanted.empty() && wanted != "-" && wanted != project) return done(OtherProject(project));
    request->set_project(project);
  }
  controller_->ListJobs(*std::move(request), Json<v1::ListJobsResponse>(std::move(done)));
}

void StatusRouter::AnswerJob(const std::string& job, const std::string& part,
                             const RequestTarget& target, AnswerDone done) const {
  if (part.empty()) {
    v1::GetJobRequest request;
    request.set_name(job);
    controller_->GetJob(std::move(request), Json<v1::Job>(std::move(done)));
  } else if (part == "metrics") {
    auto request = MetricsRequest(job, target);
    if (!request.ok()) return done(ErrorAnswer(request.status()));
    controller_->ListMetrics(*std::move(request), Json<v1::ListMetricsResponse>(std::move(done)));
  } else if (part == "trajectories") {
    auto request = TrajectoriesRequest(job, target);
    if (!request.ok()) return done(ErrorAnswer(request.status()));
    controller_->ListTrajectories(*std::move(request),
                                  Json<v1::ListTrajectoriesResponse>(std::move(done)));
  } else if (part == "events") {
    AnswerEvents(controller_, job, target, std::move(done));
  } else if (part == "checkpoints") {
    auto request = PageRequest<v1::ListCheckpointsRequest>(target);
    if (!request.ok()) return done(ErrorAnswer(request.status()));
    request->set_name(job);
    controller_->ListCheckpoints(*std::move(request),
                                 Json<v1::ListCheckpointsResponse>(std::move(done)));
  } else if (part == "explain") {
    v1::ExplainJobRequest request;
    request.set_name(job);
    controller_->ExplainJob(std::move(request), Json<v1::ExplainJobResponse>(std::move(done)));
  } else {
    done(NotFound());
  }
}

}  // namespace baton::status
