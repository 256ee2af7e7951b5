#include "controller/spec/settings/least_responses.h"

#include <string>

#include "gtest/gtest.h"

namespace baton::controller {
namespace {

uint32_t Least(const std::string& estimator, int n, const std::string& over = "") {
  v1::JobSpec spec;
  spec.mutable_rollout()->set_n(n);
  v1::Dataflow dataflow;
  dataflow.mutable_advantage()->set_estimator(estimator);
  dataflow.add_score()->set_over(over);
  return LeastResponses(spec, dataflow);
}

TEST(LeastResponsesTest, NeedsTwoResponsesForGroupComparisons) {
  for (const char* compares : {"grpo", "dr_grpo", "rloo", "reinforce_plus_plus_baseline"}) {
    EXPECT_EQ(Least(compares, 8), 2u) << compares;
    EXPECT_EQ(Least(compares, 1), 1u) << compares;
  }
  for (const char* alone : {"gae", "reinforce_plus_plus", "remax", "given"}) {
    EXPECT_EQ(Least(alone, 8), 1u) << alone;
    EXPECT_EQ(Least(alone, 8, "group"), 2u) << alone;
  }
}

}  // namespace
}  // namespace baton::controller
