#include "controller/status/openapi.h"

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "controller/status/http_routes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace baton::status {
namespace {

using Json = nlohmann::json;

// Every "$ref" below `node`.
void CollectReferences(const Json& node, std::set<std::string>* out) {
  if (node.is_object() && node.contains("$ref")) out->insert(node["$ref"].get<std::string>());
  if (!node.is_structured()) return;
  for (const Json& child : node) CollectReferences(child, out);
}

TEST(OpenApi, HasEveryRouteAndEverySchemaThatIsNamed) {
  const Json document = Json::parse(OpenApiJson());
  EXPECT_EQ(document["openapi"], "3.0.3");
  std::set<std::string> paths;
  for (const auto& [path, item] : document["paths"].items()) {
    paths.insert(path);
    // The interface only reads.
    ASSERT_EQ(item.size(), 1u) << path;
    EXPECT_TRUE(item.contains("get")) << path;
    // Each {name} of the path is a parameter of the path.
    for (absl::string_view part : absl::StrSplit(path, '/')) {
      if (!absl::ConsumePrefix(&part, "{")) continue;
      part = absl::StripSuffix(part, "}");
      bool found = false;
      for (const Json& parameter : item["get"]["parameters"]) {
        found |= parameter["in"] == "path" && parameter["name"] == std::string(part);
      }
      EXPECT_TRUE(found) << path;
    }
  }
  for (const HttpRoute& route : HttpRoutes()) EXPECT_EQ(paths.count(route.path), 1u) << route.path;
  EXPECT_EQ(paths.count("/api/v1/projects/{project}/jobs/{job}/metrics"), 1u);

  std::set<std::string> references;
  CollectReferences(document, &references);
  EXPECT_GT(references.size(), 10u);
  for (const std::string& reference : references) {
    EXPECT_TRUE(document.contains(Json::json_pointer(reference.substr(1)))) << reference;
  }
}

TEST(OpenApi, TellsTypesAsTheJsonHasThem) {
  const Json document = Json::parse(OpenApiJson());
  const Json& job = document["components"]["schemas"]["baton.v1.Job"]["properties"];
  EXPECT_EQ(job["step"], (Json{{"type", "string"}, {"format", "int64"}}));
  EXPECT_EQ(job["create_time"], (Json{{"type", "string"}, {"format", "date-time"}}));
  EXPECT_EQ(job["metrics"]["additionalProperties"]["type"], "number");
  EXPECT_EQ(job["spec"]["$ref"], "#/components/schemas/baton.v1.JobSpec");
  EXPECT_EQ(job["state"]["enum"][3], "STATE_RUNNING");
  const Json& parameters = document["paths"]["/api/v1/jobs"]["get"]["parameters"];
  EXPECT_EQ(parameters[3]["name"], "page_size");
  EXPECT_EQ(parameters[3]["schema"],
            (Json{{"type", "integer"}, {"minimum", 1}, {"default", 100}, {"maximum", 1000}}));
}

TEST(OpenApi, ThePageIsWhatTheRoutesMake) {
  const std::string path = std::string(std::getenv("BATON_SOURCE_DIR")) + "/docs/http.md";
  if (std::getenv("BATON_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << HttpReferenceMarkdown();
  }
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_TRUE(text.str() == HttpReferenceMarkdown())
      << "docs/http.md is not what the routes say; run `./dev docs`";
}

}  // namespace
}  // namespace baton::status
