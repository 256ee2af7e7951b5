// Runs the example as a user would, against an in-process controller.
#include <csignal>
#include <cstdlib>
#include <string>

#include "gtest/gtest.h"
#include "sdk/common/process/test_process.h"
#include "sdk/worker/fake_controller.h"
#include "tests/support/sdk/worker.h"

namespace baton {
namespace {

TEST(CustomReward, ScoresUntilItIsTerminated) {
  FakeController::Options options;
  options.token = "secret";
  FakeController controller(options);
  TestProcess program({std::string(std::getenv("BATON_BUILD_DIR")) + "/bin/custom_reward",
                       controller.address(), "secret"});

  EXPECT_TRUE(controller.RunTask(MakeTask("a", "reward", "assign_role")).has_value());
  v1::Task task = MakeTask("t", "reward", "compute_brevity");
  task.mutable_score()->mutable_trajectory()->set_response_text(std::string(100, 'x'));
  const auto result = controller.RunTask(task);
  EXPECT_TRUE(result.has_value());
  EXPECT_EQ(result.value_or(v1::TaskResult()).metrics().at("reward"), 0.5);

  program.Signal(SIGTERM);
  EXPECT_EQ(program.Wait(), 0);
}

}  // namespace
}  // namespace baton
