#include "controller/status/metrics_text.h"

#include "gtest/gtest.h"

namespace baton::status {
namespace {

TEST(MetricsTextTest, OneFamilyPerNameWithItsSamplesInOrder) {
  EXPECT_EQ(MetricsText({{"baton_workers", {{"state", "ready"}}, 3},
                         {"baton_job_step", {{"baton_job", "projects/default/jobs/add"}}, 41},
                         {"baton_workers", {{"state", "lost"}}, 1}}),
            "# HELP baton_job_step Training steps done\n"
            "# TYPE baton_job_step gauge\n"
            "baton_job_step{baton_job=\"projects/default/jobs/add\"} 41\n"
            "# HELP baton_workers Workers by state\n"
            "# TYPE baton_workers gauge\n"
            "baton_workers{state=\"ready\"} 3\n"
            "baton_workers{state=\"lost\"} 1\n");
}

TEST(MetricsTextTest, LabelsAreEscaped) {
  EXPECT_EQ(MetricsText({{"x", {{"name", "a\"b\\c\nd"}}, 0.5}}),
            "# TYPE x gauge\nx{name=\"a\\\"b\\\\c\\nd\"} 0.5\n");
}

}  // namespace
}  // namespace baton::status
