#include "controller/status/http_routes.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::status {
namespace {

std::optional<HttpMatch> Match(absl::string_view target) {
  auto parsed = RequestTarget::Parse(target);
  return parsed.ok() ? MatchRoute(parsed->path) : std::nullopt;
}

TEST(HttpRoutes, FindsTheRouteTheJobAndTheProject) {
  EXPECT_EQ(Match("/")->route->id, HttpRouteId::kPage);
  EXPECT_EQ(Match("/api/v1/jobs")->route->id, HttpRouteId::kJobs);
  const auto job = Match("/api/v1/jobs/a%20b");
  EXPECT_EQ(job->route->id, HttpRouteId::kJob);
  EXPECT_EQ(job->job, "a b");
  EXPECT_EQ(job->project, "");
  const auto other = Match("/api/v1/projects/p/jobs/x/explain");
  EXPECT_EQ(other->route->id, HttpRouteId::kJobExplain);
  EXPECT_EQ(other->job, "x");
  EXPECT_EQ(other->project, "p");
}

TEST(HttpRoutes, FindsNoRouteForOtherPaths) {
  for (const char* target :
       {"/api", "/api/v1", "/api/v2/jobs", "/healthz/x", "/api/v1/jobs/x/secrets",
        "/api/v1/jobs/x/metrics/y", "/api/v1/projects/p/jobs", "/api/v1/projects/p",
        "/api/v1/projects/p/workers", "/api/v1/projects/p/jobs/x/y/z"}) {
    EXPECT_FALSE(Match(target).has_value()) << target;
  }
}

TEST(HttpRoutes, EveryRouteIsFoundByItsOwnPath) {
  for (const HttpRoute& route : HttpRoutes()) {
    const auto match = Match(route.path);
    ASSERT_TRUE(match.has_value()) << route.path;
    EXPECT_EQ(match->route->id, route.id);
    const std::string in_project = ProjectPath(route);
    if (in_project.empty()) continue;
    EXPECT_EQ(Match(in_project)->route->id, route.id);
    EXPECT_EQ(Match(in_project)->project, "{project}");
  }
}

TEST(HttpRoutes, ChecksNamesAndNumbers) {
  const HttpRoute& jobs = *Match("/api/v1/jobs")->route;
  const auto parse = [](absl::string_view target) { return *RequestTarget::Parse(target); };
  EXPECT_TRUE(CheckParameters(jobs, parse("/api/v1/jobs?view=full&page_size=3")).ok());
  EXPECT_EQ(CheckParameters(jobs, parse("/api/v1/jobs?view=f")).message(),
            "view: f is not one of: short, full");
  EXPECT_EQ(CheckParameters(jobs, parse("/api/v1/jobs?size=3")).message(),
            "/api/v1/jobs has no parameter 'size'; it has project, state, view, page_size, "
            "page_token");
  EXPECT_EQ(*jobs.Number(parse("/api/v1/jobs"), "page_size"), 100);
  EXPECT_EQ(*jobs.Number(parse("/api/v1/jobs?page_size=1000"), "page_size"), 1000);
  EXPECT_FALSE(jobs.Number(parse("/api/v1/jobs?page_size=1001"), "page_size").ok());
}

}  // namespace
}  // namespace baton::status
