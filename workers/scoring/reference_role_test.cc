// The reference role on a tiny model, driven by an in-process controller.
#include "workers/scoring/reference_role.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/base/test_folder.h"
#include "tests/support/workers/role.h"
#include "workers/engine/loss/log_probs.h"
#include "workers/policy/sequences.h"

namespace baton::scoring {
namespace {

using ::testing::HasSubstr;

class ReferenceRoleTest : public ::testing::Test {
 protected:
  ReferenceRoleTest() : worker_(controller_), driver_(controller_, "reference") {
    EXPECT_TRUE(role_.Register(*worker_.operator->()).ok());
    worker_.Start();
    EXPECT_TRUE(controller_.WaitForHello(1).has_value());
    spec_.mutable_rollout()->set_deterministic(true);
    spec_.mutable_rollout()->set_temperature(0.7);
  }

  TestFolder folder_;
  v1::JobSpec spec_ = policy::TinySpec();
  FakeController controller_;
  ReferenceRole role_{ranks::ModelRoleOptions()};
  RunningWorker worker_;
  ranks::RoleDriver driver_;
};

TEST_F(ReferenceRoleTest, SaysWhatTheFirstPolicySays) {
  ASSERT_EQ(driver_.Assign(spec_).status().code(), 0);
  const auto trajectories = ranks::TinyTrajectories(24);
  const auto results = driver_.ScoreAll("compute_log_prob", trajectories);
  const auto source = policy::PolicySource::Open(spec_.model(), "").value();
  const auto policy = source->LoadModel(torch::kFloat32, torch::kCPU, 7).value();
  policy->SetDeterministic(true);
  for (size_t i = 0; i < trajectories.size(); ++i) {
    ASSERT_EQ(results[i].columns_size(), 1);
    EXPECT_EQ(results[i].columns(0).name(), "ref_log_prob");
    EXPECT_TRUE(results[i].columns(0).per_token());
    // Alone, in another process: the same bits.
    const auto sequence = policy::FromColumns(trajectories[i]).value();
    EXPECT_EQ(ranks::Floats(results[i].columns(0)),
              engine::ComputeLogProbs(*policy, {sequence}, 0.7).value()[0]);
  }
}

TEST_F(ReferenceRoleTest, NamesTheColumnAfterTheNodesOutput) {
  ASSERT_EQ(driver_.Assign(spec_).status().code(), 0);
  v1::Task task = driver_.MakeScore("compute_log_prob", ranks::TinyTrajectories(1)[0]);
  (*task.mutable_score()->mutable_options()->mutable_fields())["out"].set_string_value("old");
  EXPECT_EQ(driver_.Run(task).columns(0).name(), "old");
}

TEST_F(ReferenceRoleTest, RefusesWhatItCannotScore) {
  ASSERT_EQ(driver_.Assign(spec_).status().code(), 0);
  v1::Trajectory none;
  none.set_trajectory_id("t9");
  EXPECT_THAT(driver_.Run(driver_.MakeScore("compute_log_prob", none)).status().message(),
              HasSubstr("prompt_tokens"));
  v1::JobSpec other = spec_;
  *other.mutable_reference()->mutable_model() = spec_.model();
  other.mutable_reference()->mutable_model()->mutable_init()->set_characters("abc");
  EXPECT_THAT(driver_.Assign(other).status().message(),
              ::testing::AllOf(HasSubstr("spec.reference.model"), HasSubstr("tokenizer")));
  other.mutable_reference()->mutable_model()->set_path("/no/such/model");
  EXPECT_THAT(driver_.Assign(other).status().message(),
              ::testing::AllOf(HasSubstr("spec.reference"), HasSubstr("/no/such/model")));
}

}  // namespace
}  // namespace baton::scoring
