#include "controller/spec/job_spec/evaluation_only.h"

#include <string>
#include <vector>

#include "controller/spec/dataflow/pools.h"
#include "controller/spec/dataflow/roles.h"
#include "controller/spec/job_spec/check_saved.h"
#include "controller/spec/job_spec/spec.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "tests/support/controller/spec.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

v1::JobSpec Evaluating(const std::string& preset) {
  v1::JobSpec spec = ExampleSpec(preset);
  spec.clear_dataflow();
  spec.clear_resources();
  spec.mutable_data()->add_val_files("val.jsonl");
  spec.mutable_trainer()->set_val_only(true);
  return spec;
}

CheckedSpec CheckedWithoutProblems(const v1::JobSpec& spec) {
  CheckedSpec checked = CheckSpec(spec);
  EXPECT_THAT(checked.violations, IsEmpty()) << checked.violations[0].ShortDebugString();
  return checked;
}

TEST(EvaluationOnlyTest, AsksForNoRoleThatOnlyTrainingUses) {
  for (const std::string& preset : PresetsOf(v1::JOB_KIND_RL)) {
    v1::JobSpec spec = Evaluating(preset);
    spec.mutable_reward_model()->mutable_model()->set_path("job:rm");
    spec.mutable_reference()->mutable_model()->set_path("/reference");
    spec.mutable_algorithm()->set_recompute_log_prob(true);
    if (preset == "safe_rlhf") spec.mutable_algorithm()->set_cost_critic(true);
    const CheckedSpec checked = CheckedWithoutProblems(spec);
    EXPECT_THAT(WorkersOf(checked.effective, checked.dataflow),
                UnorderedElementsAre(Pair("actor", 1), Pair("rollout", 1), Pair("reward", 1),
                                     Pair("reward_model", 1)))
        << preset;
    EXPECT_FALSE(checked.effective.has_critic()) << preset;
    EXPECT_FALSE(checked.effective.has_reference()) << preset;
    EXPECT_FALSE(checked.effective.has_cost_model()) << preset;
    EXPECT_TRUE(checked.effective.has_reward_model()) << preset;
    EXPECT_EQ(checked.dataflow.generate_size(), 1) << preset;
    v1::Job job;
    *job.mutable_effective_spec() = checked.effective;
    *job.mutable_dataflow() = checked.dataflow;
    EXPECT_EQ(ProblemOfSaved(job), "") << preset;
  }
}

TEST(EvaluationOnlyTest, TheEffectiveSpecStaysTheSameWhenItIsSubmitted) {
  const CheckedSpec checked = CheckedWithoutProblems(Evaluating("ppo"));
  const CheckedSpec again = CheckedWithoutProblems(checked.effective);
  EXPECT_TRUE(
      google::protobuf::util::MessageDifferencer::Equals(again.effective, checked.effective));
}

TEST(EvaluationOnlyTest, AJudgeThatRewardsStaysAndOneThatFindsFlawsGoes) {
  v1::JobSpec spec = Evaluating("fapo");
  EXPECT_FALSE(CheckedWithoutProblems(spec).effective.has_judge());
  spec.mutable_algorithm()->set_preset("grpo");
  const CheckedSpec checked = CheckedWithoutProblems(spec);
  EXPECT_TRUE(checked.effective.has_judge());
  EXPECT_EQ(WorkersOf(checked.effective, checked.dataflow).count("judge"), 1u);
}

TEST(EvaluationOnlyTest, AGraphOfTheUsersNeedsNoTraining) {
  v1::JobSpec spec = Evaluating("ppo");
  v1::Dataflow* graph = spec.mutable_dataflow();
  const auto add = [&](const char* role, const char* method, const char* out) {
    v1::ScoreNode* node = graph->add_score();
    node->set_node(out);
    node->set_role(role);
    node->set_method(method);
    node->set_out(out);
    return node;
  };
  add("facts", "look_up", "facts");
  add("reward", "compute_reward", "reward")->add_inputs("facts");
  add("brevity", "count", "brief");
  graph->mutable_advantage()->set_estimator("gae");  // it needs values
  v1::UpdateNode* update = graph->add_update();      // and no actor learns
  update->set_role("critic");
  update->set_method("update");
  update->set_loss("value");
  (*spec.mutable_resources()->mutable_role_workers())["brevity"] = 3;
  const CheckedSpec checked = CheckedWithoutProblems(spec);
  EXPECT_THAT(WorkersOf(checked.effective, checked.dataflow),
              UnorderedElementsAre(Pair("actor", 1), Pair("rollout", 1), Pair("reward", 1),
                                   Pair("facts", 1)));
  // A name that the graph never had is a mistake all the same.
  (*spec.mutable_resources()->mutable_role_workers())["breviti"] = 3;
  EXPECT_THAT(Problems(spec), ElementsAre(Pair("spec.resources.role_workers.breviti",
                                               "the dataflow has no role breviti")));
}

TEST(EvaluationOnlyTest, OneCopyOfTheActorPublishes) {
  v1::JobSpec spec = Evaluating("grpo");
  spec.mutable_actor()->mutable_parallel()->set_tp(2);
  spec.mutable_actor()->mutable_parallel()->set_dp(4);
  CheckedSpec checked = CheckedWithoutProblems(spec);
  EXPECT_EQ(WorkersOf(checked.effective, checked.dataflow).at("actor"), 2);
  spec.mutable_resources()->set_placement("colocate");  // where its ranks generate
  checked = CheckedWithoutProblems(spec);
  EXPECT_EQ(WorkersOf(checked.effective, checked.dataflow).at("rollout"), 8);
}

TEST(EvaluationOnlyTest, PoolsLoseTheRolesAndAreAsLargeAsTheOthersNeed) {
  v1::JobSpec spec = Evaluating("ppo");
  spec.mutable_actor()->mutable_parallel()->set_dp(2);
  spec.mutable_resources()->set_placement("pools");
  AddPool(&spec, {"critic"}, 3);
  (*spec.mutable_resources()->mutable_pools(0)->mutable_layouts())["critic"].set_dp(3);
  AddPool(&spec, {"actor", "reference"}, 8);
  (*spec.mutable_resources()->mutable_pools(1)->mutable_layouts())["reference"].set_dp(8);
  const CheckedSpec checked = CheckedWithoutProblems(spec);
  const auto pools = PoolsOf(checked.effective, checked.dataflow);
  ASSERT_EQ(pools.size(), 2u);
  EXPECT_THAT(pools[0].roles, UnorderedElementsAre("rollout", "actor"));
  EXPECT_EQ(pools[0].workers, 2);
  EXPECT_THAT(pools[1].roles, ElementsAre("reward"));
  EXPECT_EQ(checked.effective.resources().pools_size(), 1);
}

}  // namespace
}  // namespace baton::controller
