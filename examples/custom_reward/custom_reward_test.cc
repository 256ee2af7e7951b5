// Runs the example as a user would, against an in-process controller.
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "gtest/gtest.h"
#include "sdk/worker/fake_controller.h"
#include "sdk/worker/worker_testing.h"

namespace baton {
namespace {

TEST(CustomReward, ScoresUntilItIsTerminated) {
  FakeController::Options options;
  options.token = "secret";
  FakeController controller(options);
  std::string program = std::string(std::getenv("BATON_BUILD_DIR")) + "/bin/custom_reward";
  std::string address = controller.address();
  std::string token = "secret";
  char* arguments[] = {program.data(), address.data(), token.data(), nullptr};
  pid_t pid = 0;
  ASSERT_EQ(posix_spawn(&pid, program.c_str(), nullptr, nullptr, arguments, environ), 0);

  EXPECT_TRUE(controller.RunTask(MakeTask("a", "reward", "assign_role")).has_value());
  v1::Task task = MakeTask("t", "reward", "compute_brevity");
  task.mutable_score()->mutable_trajectory()->set_response_text(std::string(100, 'x'));
  const auto result = controller.RunTask(task);
  EXPECT_TRUE(result.has_value());
  EXPECT_EQ(result.value_or(v1::TaskResult()).metrics().at("reward"), 0.5);

  kill(pid, SIGTERM);
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace baton
