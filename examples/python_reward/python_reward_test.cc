// Runs the Python example as a user would, against an in-process controller.
#include <cstdlib>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/process/test_process.h"
#include "sdk/worker/fake_controller.h"
#include "tests/support/sdk/worker.h"

namespace baton {
namespace {

using ::testing::Contains;

class PythonReward : public ::testing::Test {
 protected:
  v1::TaskResult Judge(const std::string& token, const std::string& response) {
    v1::Task task = MakeTask(token, "reward", "compute_suffix");
    task.mutable_score()->mutable_trajectory()->set_response_text(response);
    task.mutable_score()->mutable_trajectory()->set_answer("132");
    return controller_.RunTask(task).value_or(v1::TaskResult());
  }

  FakeController controller_;
  TestProcess program_{
      {BATON_PYTHON3,
       std::string(std::getenv("BATON_SOURCE_DIR")) + "/examples/python_reward/reward_worker.py",
       controller_.address()}};
};

TEST_F(PythonReward, ScoresOnceItHoldsTheRole) {
  ASSERT_TRUE(controller_.WaitForHello(1).has_value());
  EXPECT_NE(Judge("early", "#132").status().code(), 0);
  ASSERT_TRUE(controller_.RunTask(MakeTask("a", "reward", "assign_role")).has_value());
  EXPECT_EQ(Judge("right", "7+5=12 #132").metrics().at("reward"), 1);
  EXPECT_EQ(Judge("wrong", "7+5=12 #131").metrics().at("reward"), 0);
  const auto heartbeat = controller_.WaitFor([](const auto& m) { return m.has_heartbeat(); });
  EXPECT_TRUE(heartbeat.has_value());
}

TEST_F(PythonReward, SurvivesALostStream) {
  ASSERT_TRUE(controller_.RunTask(MakeTask("a", "reward", "assign_role")).has_value());
  controller_.Change([](FakeController::Options& o) { o.acknowledge_results = false; });
  EXPECT_EQ(Judge("t", "#132").metrics().at("reward"), 1);
  controller_.Drop();
  const auto hello = controller_.WaitForHello(2);
  ASSERT_TRUE(hello.has_value());
  EXPECT_THAT(hello->unacknowledged(), Contains("t"));
  ASSERT_EQ(hello->roles_held_size(), 1);
  EXPECT_EQ(hello->roles_held(0).job(), "projects/default/jobs/test");
  EXPECT_EQ(Judge("u", "#132").metrics().at("reward"), 1);
}

TEST_F(PythonReward, LeavesItsRoleWhenTheLeaseRunsOut) {
  ASSERT_TRUE(controller_.RunTask(MakeTask("a", "reward", "assign_role")).has_value());
  controller_.Drop();
  const auto still = controller_.WaitForHello(2);
  ASSERT_TRUE(still.has_value());
  EXPECT_EQ(still->roles_held_size(), 1);
  controller_.Change([](FakeController::Options& o) {
    o.lease = absl::Milliseconds(300);
    o.acknowledge_heartbeats = false;
  });
  controller_.Drop();
  ASSERT_TRUE(controller_.WaitForHello(3).has_value());
  const auto fenced = controller_.WaitForHello(4);
  ASSERT_TRUE(fenced.has_value());
  EXPECT_EQ(fenced->roles_held_size(), 0);
}

TEST_F(PythonReward, AnUnknownMethodIsUnimplemented) {
  ASSERT_TRUE(controller_.RunTask(MakeTask("a", "reward", "assign_role")).has_value());
  const auto result = controller_.RunTask(MakeTask("x", "reward", "compute_joy"));
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->status().code(), static_cast<int>(absl::StatusCode::kUnimplemented));
}

}  // namespace
}  // namespace baton
