// A job of kind reward_model, as its actor sees it.
#include "workers/trainer/reward_model_training.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/rpc/error.h"
#include "tests/support/workers/actor_role.h"
#include "workers/engine/scalar/scalar_directory.h"

namespace baton::trainer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

v1::Trajectory Preference(const std::string& prompt, const std::string& chosen,
                          const std::string& rejected, v1::Purpose purpose = v1::PURPOSE_TRAIN) {
  v1::Trajectory trajectory;
  trajectory.set_trajectory_id("t");
  trajectory.set_prompt_id(7);
  trajectory.set_purpose(purpose);
  trajectory.set_prompt_text(prompt);
  trajectory.set_response_text(chosen);
  v1::Column* column = trajectory.add_columns();
  column->set_name("rejected");
  column->set_dtype(v1::DATA_TYPE_BYTES);
  column->set_data(rejected);
  return trajectory;
}

/// Sums and wrong ones: people like the digit 7.
std::vector<v1::Trajectory> Batch() {
  std::vector<v1::Trajectory> batch;
  for (const auto& [prompt, rejected] :
       {std::pair{"1+2=", "3"}, {"2+2=", "44"}, {"4+5=", "912"}, {"0+0=", "0"}}) {
    batch.push_back(Preference(prompt, std::string(rejected) + "7", rejected));
  }
  batch.push_back(Preference("3+3=", "67", "66", v1::PURPOSE_EVAL));
  batch.push_back(Preference("5+3=", "87", "8", v1::PURPOSE_EVAL));
  return batch;
}

class RewardModelTrainingTest : public ActorTest {
 protected:
  RewardModelTrainingTest() {
    spec_.set_kind(v1::JOB_KIND_REWARD_MODEL);
    spec_.clear_rollout();
    controller_.SetBatch("b", Batch());
  }
  v1::TaskResult Update(int64_t step, const std::string& loss = "bradley_terry") {
    v1::Task task = MakeUpdate(step, loss, "b");
    task.mutable_update()->set_batch_size(6);
    return Run(task);
  }
  std::string Save(int64_t step) {
    const v1::TaskResult result = ActorTest::Save(step, "checkpoint");
    EXPECT_EQ(result.status().code(), 0) << result.status().message();
    return folder_.path("checkpoint");
  }
};

TEST_F(RewardModelTrainingTest, LearnsPreferencesAndWritesAModelThatScores) {
  ASSERT_EQ(Assign().status().code(), 0);
  const v1::TaskResult first = Update(1);
  ASSERT_EQ(first.status().code(), 0) << first.status().message();
  EXPECT_NEAR(first.metrics().at("train/loss"), 0.693147, 1e-5);  // ln 2: it knows nothing yet
  EXPECT_EQ(first.metrics().at("train/accuracy"), 0.5);
  v1::TaskResult last;
  for (int64_t step = 2; step <= 40; ++step) last = Update(step);
  EXPECT_LT(last.metrics().at("train/loss"), 0.1);
  EXPECT_EQ(last.metrics().at("train/accuracy"), 1);
  EXPECT_GT(last.metrics().at("train/margin"), 1);
  EXPECT_EQ(last.metrics().at("val/accuracy"), 1);  // Held out, and of the same taste.
  v1::Task evaluate = Make("evaluate");
  controller_.SetBatch("held-out", {Preference("3+3=", "66", "67")});
  evaluate.mutable_update()->set_batch_id("held-out");
  EXPECT_EQ(Run(evaluate).metrics().at("val/accuracy"), 0);

  v1::Task task = Make("export");
  task.mutable_export_()->set_checkpoint(Save(40));
  task.mutable_export_()->set_directory(folder_.path("model"));
  ASSERT_EQ(Run(task).status().code(), 0);
  const auto model = engine::LoadScalarModel(folder_.path("model"), torch::kFloat32, torch::kCPU,
                                             engine::HeadWanted::kRequired);
  ASSERT_TRUE(model.ok()) << model.status();
  v1::ModelSpec where;
  where.set_path(folder_.path("checkpoint"));  // As job:NAME is resolved.
  const auto source = policy::PolicySource::Open(where, "").value();
  const auto pair = PairFromTexts(Batch()[0], spec_.data(), *source).value();
  const auto report = engine::EvaluatePreferences(**model, {pair}).value();
  EXPECT_EQ(report.accuracy, 1);
}

TEST_F(RewardModelTrainingTest, GoesOnFromItsCheckpointBitwise) {
  ASSERT_EQ(Assign().status().code(), 0);
  Update(1);
  Update(2);
  const std::string checkpoint = Save(2);
  const v1::TaskResult expected = Update(3);
  Restart();
  const v1::TaskResult assigned = Assign(checkpoint, 2);
  ASSERT_EQ(assigned.status().code(), 0) << assigned.status().message();
  const v1::TaskResult again = Update(3);
  for (const char* name : {"train/loss", "train/margin", "train/grad_norm", "val/margin"}) {
    EXPECT_EQ(again.metrics().at(name), expected.metrics().at(name)) << name;
  }
  EXPECT_EQ(Update(3).metrics().at("train/loss"), again.metrics().at("train/loss"));
  EXPECT_EQ(ErrorReason(FromProto(Update(9).status())), "WRONG_STEP");
}

TEST_F(RewardModelTrainingTest, NamesWhatIsWrong) {
  ASSERT_EQ(Assign().status().code(), 0);
  EXPECT_THAT(Update(1, "sft").status().message(), HasSubstr("knows bradley_terry"));
  auto batch = Batch();
  batch[2] = Preference("4+5=", "9", "9");
  controller_.SetBatch("b", batch);
  EXPECT_THAT(Update(1).status().message(),
              AllOf(HasSubstr("trajectory t (prompt 7)"), HasSubstr("are equal; remove")));
  batch[2] = Preference("4+5=", "999999999999999991", "999999999999999992");
  controller_.SetBatch("b", batch);
  EXPECT_THAT(Update(1).status().message(), HasSubstr("after cutting to data.max_response_length"));
  batch[2] = Preference("4+5=", "9", "what?");
  controller_.SetBatch("b", batch);
  EXPECT_THAT(Update(1).status().message(), HasSubstr("prompt 7), rejected"));
  batch[2].clear_columns();
  controller_.SetBatch("b", batch);
  EXPECT_THAT(Update(1).status().message(), HasSubstr("column `rejected`"));
  v1::Task publish = Make("publish");
  EXPECT_THAT(Run(publish).status().message(), HasSubstr("has no policy"));
  EXPECT_THAT(Run(Make("compute_log_prob")).status().message(), HasSubstr("has no policy"));
}

}  // namespace
}  // namespace baton::trainer
