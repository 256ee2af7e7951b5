// The reward model's role on tiny models, driven by an in-process controller.
#include "workers/scoring/reward_model_role.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/base/test_folder.h"
#include "tests/support/workers/role.h"
#include "workers/engine/model/hf_directory.h"
#include "workers/engine/scalar/scalar_directory.h"
#include "workers/policy/sequences.h"

namespace baton::scoring {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class RewardModelRoleTest : public ::testing::TestWithParam<const char*> {
 protected:
  RewardModelRoleTest()
      : role_(GetParam(), {}), worker_(controller_), driver_(controller_, GetParam()) {
    EXPECT_TRUE(role_.Register(*worker_.operator->()).ok());
    worker_.Start();
    EXPECT_TRUE(controller_.WaitForHello(1).has_value());
    spec_.mutable_rollout()->set_deterministic(true);
    spec_.mutable_reward()->set_error_reward(-3);
  }

  void Use(const std::string& dir) {
    v1::ScoringModelSpec* own = std::string(GetParam()) == "cost" ? spec_.mutable_cost_model()
                                                                  : spec_.mutable_reward_model();
    own->mutable_model()->set_path(dir);
  }
  std::string Name() const { return std::string(GetParam()) == "cost" ? "cost" : "reward"; }

  TestFolder folder_;
  v1::JobSpec spec_ = policy::TinySpec();
  FakeController controller_;
  RewardModelRole role_;
  RunningWorker worker_;
  ranks::RoleDriver driver_;
};

TEST_P(RewardModelRoleTest, ScoresThePolicysTokens) {
  const auto model = ranks::WriteRewardModel(spec_.model(), folder_.path("m"));
  Use(folder_.path("m"));
  const v1::TaskResult assigned = driver_.Assign(spec_);
  ASSERT_EQ(assigned.status().code(), 0) << assigned.status().message();
  const auto trajectories = ranks::TinyTrajectories(20);
  const auto results = driver_.ScoreAll("compute_reward", trajectories);
  std::set<double> different;
  for (size_t i = 0; i < trajectories.size(); ++i) {
    const auto sequence = policy::FromColumns(trajectories[i]).value();
    EXPECT_EQ(results[i].metrics().at(Name()),
              engine::ComputeScores(*model, {sequence}).value()[0]);
    different.insert(results[i].metrics().at(Name()));
  }
  EXPECT_GT(different.size(), 15u);
}

TEST_P(RewardModelRoleTest, ReadsTheTextWithATokenizerOfItsOwn) {
  v1::ModelSpec other = spec_.model();
  other.mutable_init()->set_characters("=+9876543210x");
  const auto model = ranks::WriteRewardModel(other, folder_.path("m"));
  Use(folder_.path("m"));
  ASSERT_EQ(driver_.Assign(spec_).status().code(), 0);
  v1::Trajectory trajectory = ranks::TinyTrajectories(1)[0];
  trajectory.set_prompt_text("1+2=");
  trajectory.set_response_text("3");
  const auto source = policy::PolicySource::Open(other, "").value();
  const auto ids = [&](const char* text) { return source->tokenizer().Encode(text).value(); };
  engine::TrainSequence ended, cut;
  cut.tokens = ids("1+2=3");
  cut.prompt_length = 4;
  ended = cut;
  ended.tokens.push_back(source->tokenizer().eos_ids().front());
  EXPECT_EQ(driver_.Run(driver_.MakeScore("compute_reward", trajectory)).metrics().at(Name()),
            engine::ComputeScores(*model, {ended}).value()[0]);
  trajectory.set_finish_reason("length");
  EXPECT_EQ(driver_.Run(driver_.MakeScore("compute_reward", trajectory)).metrics().at(Name()),
            engine::ComputeScores(*model, {cut}).value()[0]);
  trajectory.set_response_text("what?");  // No such characters.
  const v1::TaskResult unreadable = driver_.Run(driver_.MakeScore("compute_reward", trajectory));
  EXPECT_EQ(unreadable.status().code(), 0);
  EXPECT_NE(unreadable.error(), "");
  EXPECT_EQ(unreadable.metrics().at(Name()), -3);
}

TEST_P(RewardModelRoleTest, RefusesAModelWithoutAScoreHead) {
  const auto source = policy::PolicySource::Open(spec_.model(), "").value();
  const auto decoder = source->LoadModel(torch::kFloat32, torch::kCPU, 11).value();
  engine::SaveOptions options;
  options.companions = source->companions();
  ASSERT_TRUE(engine::SaveModel(*decoder, folder_.path("m"), options).ok());
  Use(folder_.path("m"));
  const std::string key = "spec." + Name() + "_model.model.path";
  EXPECT_THAT(driver_.Assign(spec_).status().message(),
              AllOf(HasSubstr(key), HasSubstr("score.weight"), HasSubstr("reward_model")));
  Use("");
  EXPECT_THAT(driver_.Assign(spec_).status().message(),
              AllOf(HasSubstr(key), HasSubstr("job:NAME")));
}

INSTANTIATE_TEST_SUITE_P(Roles, RewardModelRoleTest, ::testing::Values("reward_model", "cost"));

}  // namespace
}  // namespace baton::scoring
