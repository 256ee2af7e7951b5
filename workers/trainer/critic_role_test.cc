// The critic role on a tiny model, driven by an in-process controller.
#include "workers/trainer/critic_role.h"

#include <fstream>
#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/base/test_folder.h"
#include "sdk/common/messages/columns.h"
#include "sdk/common/rpc/error.h"
#include "tests/support/workers/role.h"
#include "workers/engine/scalar/scalar_directory.h"
#include "workers/policy/sequences.h"

namespace baton::trainer {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

std::string ReadAll(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

class CriticRoleTest : public ::testing::Test {
 protected:
  CriticRoleTest() : driver_(controller_, "critic") {
    spec_.mutable_rollout()->set_deterministic(true);
    spec_.mutable_critic()->mutable_train()->set_lr(1e-2);
    Restart();
    controller_.SetBatch("b", ranks::WithReturns(trajectories_));
  }

  /// A new process, as far as the role knows.
  void Restart() {
    worker_.reset();
    role_ = std::make_unique<CriticRole>("critic", ranks::ModelRoleOptions());
    worker_ = std::make_unique<RunningWorker>(controller_);
    EXPECT_TRUE(role_->Register(*worker_->operator->()).ok());
    worker_->Start();
    EXPECT_TRUE(controller_.WaitForHello(++processes_).has_value());
  }
  v1::TaskResult Update(int64_t step, int64_t from, uint64_t version) {
    v1::Task task = driver_.Make("update");
    task.mutable_update()->set_step(step);
    task.mutable_update()->set_from_step(from);
    task.mutable_update()->set_batch_id("b");
    task.mutable_update()->set_loss("value");
    task.mutable_update()->set_policy_version(version);
    return driver_.Run(task);
  }
  v1::TaskResult Save(int64_t step) {
    v1::Task task = driver_.Make("save_checkpoint");
    task.mutable_save_checkpoint()->set_step(step);
    task.mutable_save_checkpoint()->set_directory(folder_.path());
    return driver_.Run(task);
  }
  std::vector<std::vector<float>> Values() {
    std::vector<std::vector<float>> values;
    for (const auto& result : driver_.ScoreAll("compute_values", trajectories_)) {
      EXPECT_EQ(result.columns(0).name(), "values");
      values.push_back(ranks::Floats(result.columns(0)));
    }
    return values;
  }

  TestFolder folder_;
  v1::JobSpec spec_ = policy::TinySpec();
  const std::vector<v1::Trajectory> trajectories_ = ranks::TinyTrajectories(12);
  FakeController controller_;
  std::unique_ptr<CriticRole> role_;
  std::unique_ptr<RunningWorker> worker_;
  ranks::RoleDriver driver_;
  int processes_ = 0;
};

TEST_F(CriticRoleTest, StartsFromTheActorAndLearns) {
  ASSERT_EQ(driver_.Assign(spec_).status().code(), 0);
  for (const auto& values : Values()) EXPECT_THAT(values, Each(0.0f));
  const v1::TaskResult first = Update(1, 0, 1);
  ASSERT_EQ(first.status().code(), 0) << first.status().message();
  EXPECT_NEAR(first.metrics().at("critic/vf_loss"), 0.5, 1e-6);  // |0 - (+-1)|^2 / 2
  EXPECT_EQ(first.metrics().at("critic/lr"), 1e-2);
  EXPECT_EQ(first.metrics().at("critic/vpred_mean"), 0);
  EXPECT_EQ(first.metrics().count("critic/grad_norm"), 1u);
  EXPECT_EQ(first.metrics().count("timing_s/update_critic"), 1u);
  double loss = 1;
  for (int64_t step = 2; step <= 30; ++step) {
    loss = Update(step, step - 1, 1).metrics().at("critic/vf_loss");
  }
  EXPECT_LT(loss, 0.2);
}

TEST_F(CriticRoleTest, ValuesAreTheModelsWhateverTheBatch) {
  ASSERT_EQ(driver_.Assign(spec_).status().code(), 0);
  ASSERT_EQ(Update(1, 0, 1).status().code(), 0);
  const auto together = Values();
  ASSERT_EQ(Save(1).status().code(), 0);
  const auto model = engine::LoadScalarModel(folder_.path("critic"), torch::kFloat32, torch::kCPU,
                                             engine::HeadWanted::kRequired)
                         .value();
  model->SetDeterministic(true);
  for (size_t i = 0; i < trajectories_.size(); ++i) {
    const auto sequence = policy::FromColumns(trajectories_[i]).value();
    EXPECT_EQ(engine::ComputeValues(*model, {sequence}).value()[0], together[i]);
  }
}

TEST_F(CriticRoleTest, ARepeatedUpdateAnswersItsFirstResult) {
  ASSERT_EQ(driver_.Assign(spec_).status().code(), 0);
  const v1::TaskResult first = Update(1, 0, 1);
  const auto values = Values();
  const v1::TaskResult again = Update(1, 0, 1);
  EXPECT_EQ(again.metrics().at("critic/vf_loss"), first.metrics().at("critic/vf_loss"));
  EXPECT_EQ(Values(), values);
  EXPECT_EQ(ErrorReason(FromProto(Update(3, 2, 3).status())), "WRONG_STEP");
  // Step 2 was dropped whole; steps in which the critic learns alone keep the version.
  EXPECT_EQ(Update(3, 2, 2).status().code(), 0);
  EXPECT_EQ(Update(5, 4, 2).status().code(), 0);
}

TEST_F(CriticRoleTest, GoesOnFromItsCheckpointBitwise) {
  ASSERT_EQ(driver_.Assign(spec_).status().code(), 0);
  ASSERT_EQ(Update(1, 0, 1).status().code(), 0);
  folder_.Write("trainer.json", "the actor's");
  const v1::TaskResult saved = Save(1);
  ASSERT_EQ(saved.status().code(), 0) << saved.status().message();
  for (const v1::FileHash& file : saved.files()) EXPECT_THAT(file.path(), HasSubstr("critic"));
  EXPECT_GE(saved.files_size(), 5);
  const v1::TaskResult expected = Update(2, 1, 2);
  const auto values = Values();
  Restart();
  ASSERT_EQ(driver_.Assign(spec_, folder_.path(), 1).status().code(), 0);
  const v1::TaskResult again = Update(2, 1, 2);
  EXPECT_EQ(again.metrics().at("critic/vf_loss"), expected.metrics().at("critic/vf_loss"));
  EXPECT_EQ(Values(), values);
  EXPECT_THAT(ReadAll(folder_.path("critic/config.json")),
              HasSubstr("LlamaForSequenceClassification"));
  const v1::TaskResult wrong = driver_.Assign(spec_, folder_.path(), 2);
  EXPECT_THAT(wrong.status().message(), HasSubstr("it is of step 1, not 2"));
}

// The cost critic is the same class under its other name: its own columns, section, metrics and
// files.
TEST(CostCriticRoleTest, LearnsCostsAndGoesOnFromItsOwnPartOfACheckpoint) {
  TestFolder folder;
  FakeController controller;
  ranks::RoleDriver driver(controller, "cost_critic");
  CriticRole role("cost_critic", ranks::ModelRoleOptions());
  RunningWorker worker(controller);
  ASSERT_TRUE(role.Register(*worker.operator->()).ok());
  worker.Start();
  ASSERT_TRUE(controller.WaitForHello(1).has_value());
  const auto trajectories = ranks::TinyTrajectories(6);
  auto batch = trajectories;
  for (v1::Trajectory& trajectory : batch) {
    const size_t length = FindColumn(trajectory, "tokens")->data().size() / 4;
    const std::vector<float> zeros(length, 0.0F), rewards(length, 9.0F), costs(length, 2.0F);
    const auto add = [&](const char* name, const std::vector<float>& values) {
      *trajectory.add_columns() = MakeColumn(name, true, absl::MakeConstSpan(values));
    };
    add("values", rewards);
    add("returns", rewards);
    add("cost_values", zeros);
    add("cost_returns", costs);
  }
  controller.SetBatch("b", batch);
  v1::JobSpec spec = policy::TinySpec();
  spec.mutable_rollout()->set_deterministic(true);
  spec.mutable_critic()->mutable_train()->set_lr(5e-3);
  spec.mutable_cost_critic()->mutable_train()->set_lr(1e-2);
  ASSERT_EQ(driver.Assign(spec).status().code(), 0);
  const auto update = [&](int64_t step) {
    v1::Task task = driver.Make("update");
    task.mutable_update()->set_step(step);
    task.mutable_update()->set_from_step(step - 1);
    task.mutable_update()->set_batch_id("b");
    task.mutable_update()->set_loss("value");
    auto& options = *task.mutable_update()->mutable_options()->mutable_fields();
    options["cliprange_value"].set_number_value(100);  // the graph says it, not the spec
    task.mutable_update()->set_policy_version(1);
    return driver.Run(task);
  };
  const auto values = [&] {
    const auto results = driver.ScoreAll("compute_values", trajectories);
    EXPECT_EQ(results[0].columns(0).name(), "cost_values");
    return ranks::Floats(results[0].columns(0));
  };
  const v1::TaskResult first = update(1);
  ASSERT_EQ(first.status().code(), 0) << first.status().message();
  EXPECT_NEAR(first.metrics().at("cost_critic/vf_loss"), 2, 1e-6);  // (0 - 2)^2 / 2
  EXPECT_EQ(first.metrics().at("cost_critic/lr"), 1e-2);
  EXPECT_EQ(first.metrics().count("timing_s/update_cost_critic"), 1u);
  for (const auto& [name, value] : first.metrics()) {
    EXPECT_NE(name.rfind("critic/", 0), 0u) << name << " is the other critic's";
  }
  v1::Task save = driver.Make("save_checkpoint");
  save.mutable_save_checkpoint()->set_step(1);
  save.mutable_save_checkpoint()->set_directory(folder.path());
  const v1::TaskResult saved = driver.Run(save);
  ASSERT_EQ(saved.status().code(), 0) << saved.status().message();
  for (const v1::FileHash& file : saved.files()) {
    EXPECT_EQ(file.path().rfind("cost_critic", 0), 0u) << file.path();
  }
  const auto then = values();
  double loss = 2;
  for (int64_t step = 2; step <= 40; ++step) {
    loss = update(step).metrics().at("cost_critic/vf_loss");
  }
  EXPECT_LT(loss, 0.5);
  EXPECT_NE(values(), then);
  ASSERT_EQ(driver.Assign(spec, folder.path(), 1).status().code(), 0);
  EXPECT_EQ(values(), then);
  spec.mutable_cost_critic()->mutable_model()->set_path("/nowhere");
  EXPECT_THAT(driver.Assign(spec).status().message(), HasSubstr("spec.cost_critic"));
}

TEST_F(CriticRoleTest, StartsFromARewardModelButNotFromAnothersTokens) {
  ASSERT_EQ(driver_.Assign(spec_).status().code(), 0);
  ASSERT_EQ(Update(1, 0, 1).status().code(), 0);
  const auto values = Values();
  ASSERT_EQ(Save(1).status().code(), 0);
  v1::JobSpec from = spec_;
  from.mutable_critic()->mutable_model()->set_path(folder_.path("critic"));
  ASSERT_EQ(driver_.Assign(from).status().code(), 0);
  EXPECT_EQ(Values(), values);
  from.mutable_model()->mutable_init()->set_characters("abcdefghijklmno");
  EXPECT_THAT(driver_.Assign(from).status().message(),
              AllOf(HasSubstr("spec.critic.model"), HasSubstr("tokenizer")));
}

TEST_F(CriticRoleTest, RefusesWhatItCannotDo) {
  ASSERT_EQ(driver_.Assign(spec_).status().code(), 0);
  EXPECT_EQ(ErrorReason(FromProto(Save(4).status())), "WRONG_STEP");
  auto batch = trajectories_;
  controller_.SetBatch("b", batch);
  EXPECT_THAT(Update(1, 0, 1).status().message(), HasSubstr("returns has 0 values"));
}

}  // namespace
}  // namespace baton::trainer
