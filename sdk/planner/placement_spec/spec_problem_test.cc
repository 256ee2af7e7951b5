#include "sdk/planner/placement_spec/spec_problem.h"

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/planner/placement_spec/model_files.h"

namespace baton::placement {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

absl::StatusOr<PlannedModel> Llama(const std::string&, const v1::ModelSpec&) {
  return *FindModel("llama-7b");
}

v1::JobSpec Ppo() {
  v1::JobSpec spec;
  spec.set_kind(v1::JOB_KIND_RL);
  spec.mutable_algorithm()->set_preset("ppo");
  spec.mutable_data()->set_train_batch_size(16);
  spec.mutable_rollout()->set_n(2);
  spec.mutable_actor()->set_ppo_mini_batch_size(8);
  spec.mutable_critic()->mutable_train()->set_ppo_mini_batch_size(4);
  return spec;
}

TEST(SpecProblem, TakesRolesAndWorkloadFromTheSpec) {
  const auto made = ProblemOf(Ppo(), Llama);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_THAT(made->notes, IsEmpty());
  const auto& roles = made->problem.roles;
  ASSERT_EQ(roles.size(), 3u);
  EXPECT_EQ(roles[0].name, "actor");
  EXPECT_TRUE(roles[0].generates && roles[0].trains && !roles[0].scores);
  EXPECT_EQ(roles[1].name, "critic");
  EXPECT_TRUE(!roles[1].generates && roles[1].trains && roles[1].scores);
  EXPECT_TRUE(roles[1].model.scalar_head);
  EXPECT_EQ(roles[2].name, "reference");
  EXPECT_TRUE(!roles[2].trains && roles[2].scores);
  EXPECT_EQ(made->problem.setting.workload.sequences, 32);
  EXPECT_EQ(made->problem.setting.workload.mini_batch, 8);
  EXPECT_EQ(roles[0].max_tensor, 0);
}

TEST(SpecProblem, IncludesTheCostCritic) {
  v1::JobSpec spec = Ppo();
  spec.mutable_algorithm()->set_preset("safe_rlhf");
  EXPECT_THAT(ModelRoles(spec), ElementsAre("actor", "critic", "reference", "cost"));
  spec.mutable_algorithm()->set_cost_critic(true);
  EXPECT_THAT(ModelRoles(spec), ElementsAre("actor", "critic", "cost_critic", "reference", "cost"));
  const auto made = ProblemOf(spec, Llama);
  ASSERT_TRUE(made.ok());
  EXPECT_TRUE(made->problem.roles[2].trains);
  EXPECT_TRUE(made->problem.roles[2].model.scalar_head);
}

TEST(SpecProblem, AnEvaluationTrainsNothingAndScoresRewardsAlone) {
  v1::JobSpec spec = Ppo();
  spec.mutable_reward_model();
  spec.mutable_algorithm()->set_recompute_log_prob(true);
  spec.mutable_trainer()->set_val_only(true);
  const auto made = ProblemOf(spec, Llama);
  ASSERT_TRUE(made.ok()) << made.status();
  const auto& roles = made->problem.roles;
  ASSERT_EQ(roles.size(), 2u);
  EXPECT_EQ(roles[0].name, "actor");
  EXPECT_TRUE(roles[0].generates && !roles[0].trains && !roles[0].scores);
  EXPECT_EQ(roles[1].name, "reward_model");
  v1::ScoreNode* node = spec.mutable_dataflow()->add_score();
  node->set_role("cost");
  node->set_out("cost");
  node = spec.mutable_dataflow()->add_score();
  node->set_role("reward_model");
  node->set_out("reward");
  spec.mutable_dataflow()->add_update()->set_role("critic");
  EXPECT_THAT(ModelRoles(spec), ElementsAre("actor", "reward_model"));
}

TEST(SpecProblem, RunnableHasItsLimits) {
  v1::JobSpec spec = Ppo();
  spec.mutable_model()->set_dtype("bfloat16");
  auto made = ProblemOf(spec, Llama);
  ASSERT_TRUE(made.ok());
  Problem& problem = made->problem;
  KeepToRunnable(spec, &problem);
  EXPECT_EQ(problem.max_pipeline, 1);
  // The built-in engine's way: float32, no recomputation.
  EXPECT_EQ(problem.setting.workload.bytes, 4);
  EXPECT_FALSE(problem.setting.workload.recomputes);
  EXPECT_EQ(problem.setting.workload.micro_batch_tokens, 4096);
  EXPECT_EQ(problem.roles[0].max_tensor, 64);
  EXPECT_EQ(problem.roles[0].max_generation_tensor, 64);
  EXPECT_EQ(problem.roles[0].max_data, 8);
  EXPECT_EQ(problem.roles[1].max_tensor, 64);
  EXPECT_EQ(problem.roles[1].max_data, 4);
  EXPECT_EQ(problem.roles[2].max_tensor, 64);
  EXPECT_EQ(problem.roles[2].max_data, 1024);

  // Without mini-batches a rank has a sequence of the whole batch: 16 prompts x 2.
  spec.mutable_actor()->clear_ppo_mini_batch_size();
  spec.mutable_actor()->set_max_token_len(512);
  spec.clear_critic();
  spec.mutable_algorithm()->set_recompute_log_prob(true);
  made = ProblemOf(spec, Llama);
  KeepToRunnable(spec, &made->problem);
  EXPECT_EQ(made->problem.setting.workload.micro_batch_tokens, 512);
  EXPECT_TRUE(made->problem.roles[0].scores);
  EXPECT_EQ(made->problem.roles[0].max_tensor, 64);
  EXPECT_EQ(made->problem.roles[0].max_data, 32);
  EXPECT_EQ(made->problem.roles[1].max_data, 32);
}

TEST(SpecProblem, WritesPools) {
  const auto made = ProblemOf(Ppo(), Llama);
  Plan plan;
  plan.pools.resize(2);
  plan.pools[0].devices = 8;
  plan.pools[0].roles.resize(2);
  plan.pools[0].roles[0].role = 0;
  plan.pools[0].roles[0].layout.tensor = 4;
  plan.pools[0].roles[0].layout.data = 2;
  plan.pools[0].roles[0].layout.generation_tensor = 2;
  plan.pools[0].roles[1].role = 2;
  plan.pools[0].roles[1].layout.data = 8;
  plan.pools[1].devices = 3;
  plan.pools[1].roles.resize(1);
  plan.pools[1].roles[0].role = 1;
  plan.pools[1].roles[0].layout.data = 3;
  v1::ResourcesSpec resources;
  resources.set_reward_workers(2);
  WritePools(made->problem, plan, &resources);
  EXPECT_EQ(resources.reward_workers(), 2);
  EXPECT_EQ(resources.placement(), "pools");
  ASSERT_EQ(resources.pools_size(), 2);
  EXPECT_THAT(resources.pools(0).roles(), ElementsAre("actor", "rollout", "reference"));
  EXPECT_EQ(resources.pools(0).devices(), 8);
  EXPECT_EQ(resources.pools(0).layouts().at("actor").ShortDebugString(),
            "tp: 4 dp: 2 generation_tp: 2");
  EXPECT_EQ(resources.pools(0).layouts().at("reference").ShortDebugString(), "tp: 1 dp: 8");
  EXPECT_THAT(resources.pools(1).roles(), ElementsAre("critic"));
  EXPECT_EQ(resources.pools(1).layouts().at("critic").ShortDebugString(), "tp: 1 dp: 3");
}

TEST(ModelFiles, ReadsAConfigAndNamesWhatIsNone) {
  const std::string folder = ::testing::TempDir() + "/model_files_test";
  std::filesystem::create_directories(folder);
  const std::string file = folder + "/config.json";
  std::ofstream(file) << R"({"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 4,
      "num_key_value_heads": 2, "intermediate_size": 16, "vocab_size": 10,
      "tie_word_embeddings": true, "model_type": "qwen2"})";
  const auto model = ReadModelFile(file);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->name, "model_files_test");
  EXPECT_EQ(model->num_key_value_heads, 2);
  EXPECT_TRUE(model->tie_word_embeddings && model->attention_bias);
  std::ofstream(file) << "[]";
  EXPECT_THAT(ReadModelFile(file).status().message(), HasSubstr("is not a JSON object"));
  std::filesystem::remove_all(folder);
  EXPECT_EQ(ReadModelFile(file).status().code(), absl::StatusCode::kNotFound);
}

TEST(ModelFiles, RandomWeightsHaveTheirDefaults) {
  v1::ModelInitSpec init;
  init.set_characters("ab\xc3\xa9");  // three characters
  const PlannedModel model = ModelOfInit(init);
  EXPECT_EQ(model.vocab_size, 5);  // and <pad>, <eos>
  EXPECT_EQ(model.hidden_size, 128);
  EXPECT_EQ(model.intermediate_size, 512);
  EXPECT_EQ(model.num_hidden_layers, 2);
  EXPECT_EQ(model.num_attention_heads, 4);
  EXPECT_EQ(model.num_key_value_heads, 4);
  EXPECT_TRUE(model.tie_word_embeddings);
}

}  // namespace
}  // namespace baton::placement
