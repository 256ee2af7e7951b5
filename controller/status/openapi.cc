#include "controller/status/openapi.h"

#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "baton/v1/cluster_service.pb.h"
#include "baton/v1/job_service.pb.h"
#include "controller/status/http_routes.h"
#include "google/protobuf/descriptor.h"
#include "nlohmann/json.hpp"

namespace baton::status {
namespace {

namespace pb = google::protobuf;
using SchemaJson = nlohmann::ordered_json;

const pb::Descriptor* MessageNamed(const std::string& name) {
  v1::Job::descriptor(), v1::Worker::descriptor();  // makes sure that both files are linked in
  return pb::DescriptorPool::generated_pool()->FindMessageTypeByName(name);
}

SchemaJson Reference(const std::string& name) {
  return {{"$ref", absl::StrCat("#/components/schemas/", name)}};
}

// The schemas of messages by name, with the messages that they use.
class Schemas {
 public:
  SchemaJson Of(const pb::Descriptor& type) {
    SchemaJson special = Special(type.full_name());
    if (!special.is_null()) return special;
    if (seen_.insert(type.full_name()).second) {
      SchemaJson properties = SchemaJson::object();
      for (int i = 0; i < type.field_count(); ++i) {
        properties[type.field(i)->name()] = OfField(*type.field(i));
      }
      all_[type.full_name()] = {{"type", "object"}, {"properties", properties}};
    }
    return Reference(type.full_name());
  }

  const SchemaJson& all() const { return all_; }
  SchemaJson* mutable_all() { return &all_; }

 private:
  // In the format of protobuf's JSON.
  static SchemaJson Special(const std::string& name) {
    if (name == "google.protobuf.Timestamp") return {{"type", "string"}, {"format", "date-time"}};
    if (name == "google.protobuf.Duration") {
      return {{"type", "string"}, {"description", "seconds, e.g. 3.5s"}};
    }
    if (name == "google.protobuf.Struct") return {{"type", "object"}};
    return nullptr;
  }

  SchemaJson OfField(const pb::FieldDescriptor& field) {
    if (field.is_map()) {
      return {{"type", "object"},
              {"additionalProperties", OfValue(*field.message_type()->map_value())}};
    }
    if (field.is_repeated()) return {{"type", "array"}, {"items", OfValue(field)}};
    return OfValue(field);
  }

  SchemaJson OfValue(const pb::FieldDescriptor& field) {
    switch (field.cpp_type()) {
      case pb::FieldDescriptor::CPPTYPE_MESSAGE:
        return Of(*field.message_type());
      case pb::FieldDescriptor::CPPTYPE_ENUM: {
        SchemaJson names = SchemaJson::array();
        for (int i = 0; i < field.enum_type()->value_count(); ++i) {
          names.push_back(field.enum_type()->value(i)->name());
        }
        return {{"type", "string"}, {"enum", names}};
      }
      case pb::FieldDescriptor::CPPTYPE_BOOL:
        return {{"type", "boolean"}};
      case pb::FieldDescriptor::CPPTYPE_DOUBLE:
      case pb::FieldDescriptor::CPPTYPE_FLOAT:
        return {{"type", "number"}};
      case pb::FieldDescriptor::CPPTYPE_INT64:
        return {{"type", "string"}, {"format", "int64"}};
      case pb::FieldDescriptor::CPPTYPE_UINT64:
        return {{"type", "string"}, {"format", "uint64"}};
      case pb::FieldDescriptor::CPPTYPE_STRING:
        return field.type() == pb::FieldDescriptor::TYPE_BYTES
                   ? SchemaJson{{"type", "string"}, {"format", "byte"}}
                   : SchemaJson{{"type", "string"}};
      default:
        return {{"type", "integer"}};
    }
  }

  std::set<std::string> seen_;
  SchemaJson all_ = SchemaJson::object();
};

SchemaJson PathParameter(const std::string& name, const std::string& meaning) {
  return {{"name", name},
          {"in", "path"},
          {"required", true},
          {"description", meaning},
          {"schema", {{"type", "string"}}}};
}

SchemaJson QueryParameter(const HttpParameter& parameter) {
  SchemaJson schema = {{"type", "string"}};
  if (parameter.number) {
    schema = {{"type", "integer"}, {"minimum", parameter.min}, {"default", parameter.fallback}};
    if (parameter.max != INT64_MAX) schema["maximum"] = parameter.max;
  } else if (!parameter.names.empty()) {
    schema["enum"] = parameter.names;
  }
  return {{"name", parameter.name},
          {"in", "query"},
          {"description", parameter.meaning},
          {"schema", schema}};
}

SchemaJson Operation(const HttpRoute& route, bool in_project, Schemas& schemas) {
  SchemaJson parameters = SchemaJson::array();
  if (in_project) parameters.push_back(PathParameter("project", "The project."));
  if (absl::StrContains(route.path, "{job}")) {
    parameters.push_back(PathParameter("job", "The job's id."));
  }
  for (const HttpParameter& parameter : route.parameters) {
    parameters.push_back(QueryParameter(parameter));
  }
  const std::string media = route.answers_message() ? "application/json" : route.answer;
  SchemaJson schema = {{"type", media == "application/json" ? "object" : "string"}};
  if (route.answers_message()) schema = schemas.Of(*MessageNamed(route.answer));
  if (route.id == HttpRouteId::kJobEvents) {
    const SchemaJson event = schemas.Of(*v1::JobEvent::descriptor());
    schema["properties"] = {{"events", {{"type", "array"}, {"items", event}}}};
  }
  return {{"summary", route.summary},
          {"parameters", parameters},
          {"responses",
           {{"200", {{"description", "The answer."}, {"content", {{media, {{"schema", schema}}}}}}},
            {"default",
             {{"description", "An error."},
              {"content", {{"application/json", {{"schema", Reference("Error")}}}}}}}}}};
}

// {"error": {"code": 404, …}}.
SchemaJson ErrorSchema() {
  return {{"type", "object"},
          {"properties",
           {{"error",
             {{"type", "object"},
              {"required", {"code", "message"}},
              {"properties",
               {{"code", {{"type", "integer"}, {"description", "The HTTP status."}}},
                {"status", {{"type", "string"}, {"description", "The gRPC status, if any."}}},
                {"reason", {{"type", "string"}, {"description", "docs/errors.md."}}},
                {"message", {{"type", "string"}}}}}}}}}};
}

constexpr char kIntroduction[] = R"(# HTTP

The controller answers HTTP at `--http` (default `127.0.0.1:7078`): a page for people, probes, metrics for Prometheus, and JSON for programs. This page is made from the controller's table of routes by `./dev docs`; `GET /api/v1/openapi.json` answers the same as OpenAPI 3.0, with the schema of every answer.

**It only reads.** GET and HEAD are understood; every other method is answered 405. Jobs are submitted and steered over gRPC: with the `baton` command (`cli.md`), from C++ (`embed.md`), or in any language from the `.proto` files.

    curl -s 'http://127.0.0.1:7078/api/v1/jobs?state=running'
    curl -s 'http://127.0.0.1:7078/api/v1/jobs/first/metrics?prefix=critic/score'

**Tokens.** Where the controller asks for tokens (`access.md`), send `Authorization: Bearer TOKEN` with the scope `read`, or give the token as the password in a browser. The token of a project reads that project alone, and neither `/metrics` nor the workers.

**JSON** is protobuf's: the field names of the `.proto` files, 64-bit integers as strings, times as RFC 3339, durations as `"3.5s"`. Fields with their default value are left out. Lists come in pages: pass `next_page_token` as `page_token` with the same other parameters.

**Errors** are JSON at every address, except that `/readyz` answers 503 as text:

    {"error": {"code": 404, "status": "NOT_FOUND", "reason": "JOB_NOT_FOUND", "message": "there is no job projects/default/jobs/x"}}

`code` is the HTTP status. `status` and `reason` are those of gRPC (`errors.md`), and absent where HTTP alone refuses: 401 no valid token, 403 not this project or scope, 404 no such address, 405 not GET or HEAD, 413 a body, 431 too large a header, 504 no answer from the controller in time. A parameter that the address does not have, or whose value is out of its bounds, is 400.
)";

}  // namespace

std::string OpenApiJson() {
  Schemas schemas;
  SchemaJson paths = SchemaJson::object();
  for (const HttpRoute& route : HttpRoutes()) {
    paths[route.path] = {{"get", Operation(route, false, schemas)}};
    const std::string in_project = ProjectPath(route);
    if (!in_project.empty()) paths[in_project] = {{"get", Operation(route, true, schemas)}};
  }
  (*schemas.mutable_all())["Error"] = ErrorSchema();
  const SchemaJson document = {
      {"openapi", "3.0.3"},
      {"info",
       {{"title", "Baton"},
        {"version", "v1"},
        {"description",
         "Reads the state of jobs and workers. It changes nothing: jobs are "
         "submitted and steered over gRPC."}}},
      {"paths", paths},
      {"components",
       {{"schemas", schemas.all()},
        {"securitySchemes", {{"token", {{"type", "http"}, {"scheme", "bearer"}}}}}}},
      {"security", {{{"token", SchemaJson::array()}}, SchemaJson::object()}}};
  return document.dump(2);
}

std::string HttpReferenceMarkdown() {
  std::string out = kIntroduction;
  absl::StrAppend(&out,
                  "\n## Addresses\n\nWhat begins with `/api/v1/jobs/{job}` is about a job of "
                  "project `default` (or of the token's project); the same below "
                  "`/api/v1/projects/{project}/jobs/{job}` is about a job of that project.\n");
  for (const HttpRoute& route : HttpRoutes()) {
    const std::string answer =
        route.answers_message() ? absl::StrCat("`", route.answer, "` as JSON") : route.answer;
    absl::StrAppend(&out, "\n### GET ", route.path, "\n\n", route.summary, " Answers ", answer,
                    ".\n");
    if (route.parameters.empty()) continue;
    absl::StrAppend(&out, "\n| parameter | default | bounds | |\n|---|---|---|---|\n");
    for (const HttpParameter& parameter : route.parameters) {
      std::string fallback = "–", bounds = "–";
      if (parameter.number) {
        fallback = absl::StrCat(parameter.fallback);
        bounds = parameter.max == INT64_MAX ? absl::StrCat("at least ", parameter.min)
                                            : absl::StrCat(parameter.min, " to ", parameter.max);
      } else if (!parameter.names.empty()) {
        bounds = absl::StrCat("one of `", absl::StrJoin(parameter.names, "`, `"), "`");
      }
      absl::StrAppend(&out, "| `", parameter.name, "` | ", fallback, " | ", bounds, " | ",
                      parameter.meaning, " |\n");
    }
  }
  return out;
}

}  // namespace baton::status
