// Fake critic, reference and reward models.
#include <cstring>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/base/test_folder.h"
#include "sdk/common/rpc/error.h"
#include "sdk/worker/fake_controller.h"
#include "tests/fake_worker/fake_scores.h"
#include "tests/fake_worker/fake_worker.h"

namespace baton::fake {
namespace {

using ::testing::HasSubstr;

v1::Trajectory TrajectoryOf(const std::string& prompt, const std::string& response) {
  v1::Trajectory trajectory;
  trajectory.set_prompt_text(prompt);
  trajectory.set_response_text(response);
  return trajectory;
}

TEST(FakeScores, DependOnTheTextThatTheyScore) {
  const auto a = TrajectoryOf("p", "abc"), b = TrajectoryOf("p", "abd"),
             c = TrajectoryOf("q", "abc");
  const auto values = TokenScores(1, a, 0, false);
  ASSERT_EQ(values.size(), 3u);
  EXPECT_EQ(TokenScores(1, b, 0, false), values);  // No value has seen the last token.
  EXPECT_NE(TokenScores(1, c, 0, false), values);
  EXPECT_NE(TokenScores(2, a, 0, false), values);
  const auto log_probs = TokenScores(1, a, -1.5, true), others = TokenScores(1, b, -1.5, true);
  EXPECT_EQ(log_probs[1], others[1]);
  EXPECT_NE(log_probs[2], others[2]);
  for (const float x : log_probs) EXPECT_TRUE(x >= -1.5f && x <= -0.5f) << x;
  std::set<double> scores;
  for (int i = 0; i < 100; ++i) scores.insert(LearnedScore("cost", std::to_string(i)));
  EXPECT_GT(scores.size(), 80u);
  EXPECT_NE(LearnedScore("cost", "x"), LearnedScore("reward_model", "x"));
}

class FakeScoringTest : public ::testing::Test {
 protected:
  FakeScoringTest() {
    controller_.SetBatch("b", {TrajectoryOf("p", "x"), TrajectoryOf("p", "y")});
    Restart();
  }

  void Restart() {
    worker_.reset();
    FakeWorkerOptions options;
    options.worker.controller = controller_.address();
    options.roles = {"actor", "reference", "critic", "cost_critic", "reward_model", "cost"};
    worker_ = FakeWorker::Create(options).value();
    worker_->Start();
    EXPECT_TRUE(controller_.WaitForHello(++processes_).has_value());
  }
  v1::Task Make(const std::string& role, const std::string& method) {
    v1::Task task;
    task.set_task_token(std::to_string(++tokens_));
    task.set_job("projects/default/jobs/j");
    task.set_role(role);
    task.set_method(method);
    return task;
  }
  v1::TaskResult Run(const v1::Task& task) {
    return controller_.RunTask(task).value_or(v1::TaskResult());
  }
  v1::TaskResult Assign(const std::string& role, const std::string& checkpoint = "",
                        int64_t step = 0) {
    v1::Task task = Make(role, "assign_role");
    task.mutable_assign_role()->mutable_spec()->mutable_data()->set_seed(1);
    task.mutable_assign_role()->set_checkpoint(checkpoint);
    task.mutable_assign_role()->set_step(step);
    task.mutable_assign_role()->set_policy_version(static_cast<uint64_t>(step));
    const v1::TaskResult result = Run(task);
    EXPECT_EQ(result.status().code(), 0) << result.status().message();
    return result;
  }
  v1::TaskResult Score(const std::string& role, const std::string& method) {
    v1::Task task = Make(role, method);
    *task.mutable_score()->mutable_trajectory() = TrajectoryOf("p", "abc");
    const v1::TaskResult result = Run(task);
    EXPECT_EQ(result.status().code(), 0) << result.status().message();
    return result;
  }
  v1::TaskResult Update(int64_t step, const std::string& role = "critic") {
    v1::Task task = Make(role, "update");
    task.mutable_update()->set_step(step);
    task.mutable_update()->set_from_step(step - 1);
    task.mutable_update()->set_batch_id("b");
    task.mutable_update()->set_batch_size(2);
    task.mutable_update()->set_loss("value");
    task.mutable_update()->set_policy_version(static_cast<uint64_t>(step));
    return Run(task);
  }
  std::string Values() { return Score("critic", "compute_values").columns(0).data(); }

  const TestFolder folder_;
  FakeController controller_;
  std::unique_ptr<FakeWorker> worker_;
  int tokens_ = 0;
  int processes_ = 0;
};

TEST_F(FakeScoringTest, EveryRoleNamesWhatItMakes) {
  for (const char* role : {"actor", "reference", "critic", "cost_critic", "reward_model", "cost"}) {
    Assign(role);
  }
  const v1::TaskResult actor = Score("actor", "compute_log_prob");
  EXPECT_EQ(actor.columns(0).name(), "old_log_prob");
  EXPECT_EQ(actor.columns(0).data().size(), 3 * sizeof(float));
  const v1::TaskResult reference = Score("reference", "compute_log_prob");
  EXPECT_EQ(reference.columns(0).name(), "ref_log_prob");
  EXPECT_EQ(reference.columns(0).data().size(), 3 * sizeof(float));
  const v1::TaskResult values = Score("critic", "compute_values");
  EXPECT_EQ(values.columns(0).name(), "values");
  EXPECT_TRUE(values.columns(0).per_token());
  const v1::TaskResult cost_values = Score("cost_critic", "compute_values");
  EXPECT_EQ(cost_values.columns(0).name(), "cost_values");
  EXPECT_NE(cost_values.columns(0).data(), values.columns(0).data());
  EXPECT_EQ(Score("reward_model", "compute_reward").metrics().at("reward"),
            LearnedScore("reward_model", "abc"));
  EXPECT_EQ(Score("cost", "compute_reward").metrics().at("cost"), LearnedScore("cost", "abc"));
  v1::Task task = Make("reward_model", "compute_reward");
  (*task.mutable_score()->mutable_options()->mutable_fields())["out"].set_string_value("mine");
  EXPECT_EQ(Run(task).metrics().count("mine"), 1u);
}

TEST_F(FakeScoringTest, TheCriticGoesOnExactlyFromItsCheckpoint) {
  Assign("critic");
  const std::string first = Values();
  EXPECT_EQ(Update(1).metrics().at("critic/vf_loss"), 1);
  const std::string second = Values();
  EXPECT_NE(first, second);
  EXPECT_EQ(Update(1).status().code(), 0);  // A new attempt of the same step.
  EXPECT_EQ(Values(), second);
  EXPECT_EQ(ErrorReason(FromProto(Update(3).status())), "WRONG_STEP");
  v1::Task save = Make("critic", "save_checkpoint");
  save.mutable_save_checkpoint()->set_step(1);
  save.mutable_save_checkpoint()->set_directory(folder_.path());
  const v1::TaskResult saved = Run(save);
  ASSERT_EQ(saved.files_size(), 2) << saved.status().message();
  EXPECT_EQ(saved.files(0).path(), "critic.json");
  EXPECT_EQ(saved.files(1).path(), "critic/weights.json");
  Update(2);
  const std::string third = Values();
  Restart();
  Assign("critic", folder_.path(), 1);
  EXPECT_EQ(Values(), second);
  Update(2);
  EXPECT_EQ(Values(), third);
}

TEST_F(FakeScoringTest, TheCriticOfCostsHasFilesOfItsOwn) {
  Assign("critic");
  Assign("cost_critic");
  EXPECT_EQ(Update(1, "cost_critic").metrics().at("cost_critic/vf_loss"), 1);
  const std::string values = Values();
  v1::Task save = Make("cost_critic", "save_checkpoint");
  save.mutable_save_checkpoint()->set_step(1);
  save.mutable_save_checkpoint()->set_directory(folder_.path());
  const v1::TaskResult saved = Run(save);
  ASSERT_EQ(saved.files_size(), 2) << saved.status().message();
  EXPECT_EQ(saved.files(0).path(), "cost_critic.json");
  EXPECT_EQ(saved.files(1).path(), "cost_critic/weights.json");
  const std::string at_one = Score("cost_critic", "compute_values").columns(0).data();
  Update(2, "cost_critic");
  EXPECT_NE(Score("cost_critic", "compute_values").columns(0).data(), at_one);
  Assign("cost_critic", folder_.path(), 1);
  EXPECT_EQ(Score("cost_critic", "compute_values").columns(0).data(), at_one);
  EXPECT_EQ(Values(), values) << "the other critic stays where it is";
}

}  // namespace
}  // namespace baton::fake
