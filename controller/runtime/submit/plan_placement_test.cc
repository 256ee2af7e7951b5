#include "controller/runtime/submit/plan_placement.h"

#include <filesystem>
#include <fstream>

#include "controller/spec/dataflow/pools.h"
#include "controller/spec/dataflow/roles.h"
#include "controller/spec/job_spec/presets.h"
#include "controller/spec/job_spec/spec.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class PlanPlacementTest : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  // PPO whose models are all of this shape.
  v1::JobSpec Ppo(int hidden, int layers, int heads) const {
    std::ofstream(folder_ + "/config.json")
        << "{\"hidden_size\": " << hidden << ", \"num_hidden_layers\": " << layers
        << ", \"num_attention_heads\": " << heads << ", \"intermediate_size\": " << 4 * hidden
        << ", \"vocab_size\": 32000}";
    v1::JobSpec spec = ExampleSpec("ppo");
    spec.clear_dataflow();
    spec.clear_resources();
    spec.mutable_model()->Clear();
    spec.mutable_model()->set_path(folder_);
    spec.mutable_model()->set_dtype("bfloat16");
    spec.mutable_reward_model()->mutable_model()->set_path(folder_);
    spec.mutable_resources()->set_placement("auto");
    spec.mutable_resources()->set_device("h200");
    spec.mutable_resources()->set_devices(8);
    return spec;
  }

  const std::string folder_ = ::testing::TempDir() + "/plan_placement_test";
};

std::vector<std::string> Text(const std::vector<v1::FieldViolation>& violations) {
  std::vector<std::string> out;
  for (const auto& v : violations) out.push_back(v.field() + ": " + v.description());
  return out;
}

// With one worker there is only one placement.
TEST_F(PlanPlacementTest, OneWorkerHasAllModels) {
  v1::JobSpec spec = Ppo(512, 4, 8);
  spec.mutable_resources()->set_devices(1);
  CheckedSpec checked = CheckSpec(spec);
  ASSERT_THAT(Text(checked.violations), ElementsAre());
  EXPECT_THAT(Text(PlanPlacement(spec, checked.dataflow, &checked.effective)), ElementsAre());
  EXPECT_TRUE(IsHybrid(checked.effective, checked.dataflow));
  const auto pools = PoolsOf(checked.effective, checked.dataflow);
  ASSERT_THAT(pools, SizeIs(2));
  EXPECT_EQ(pools[0].workers, 1);
  EXPECT_THAT(pools[0].roles,
              UnorderedElementsAre("rollout", "actor", "critic", "reference", "reward_model"));
  EXPECT_THAT(pools[1].roles, ElementsAre("reward"));
  EXPECT_EQ(PlacementText(checked.effective.resources()),
            "actor+rollout+critic+reference+reward_model 1");
}

// Llama-7B's training state is 16 bytes a parameter (float32): 108 GB, and 37 GB of activations, so
// neither actor nor critic fits with another on one H200, and the devices are used.
TEST_F(PlanPlacementTest, ChoosesPoolsAndLayouts) {
  const v1::JobSpec spec = Ppo(4096, 32, 32);
  CheckedSpec checked = CheckSpec(spec);
  ASSERT_THAT(Text(checked.violations), ElementsAre());
  EXPECT_THAT(Text(PlanPlacement(spec, checked.dataflow, &checked.effective)), ElementsAre());
  EXPECT_EQ(checked.effective.resources().placement(), "pools");
  EXPECT_TRUE(IsHybrid(checked.effective, checked.dataflow));
  int devices = 0;
  for (const RolePool& pool : PoolsOf(checked.effective, checked.dataflow)) {
    if (pool.roles[0] != "reward") devices += pool.workers;
  }
  EXPECT_GT(devices, 2);
  EXPECT_LE(devices, 8);
  const auto workers = WorkersOf(checked.effective, checked.dataflow);
  EXPECT_EQ(workers.at("actor"), workers.at("rollout") * GenerationTp(checked.effective));
  const GroupShape reference = ShapeOf(checked.effective, "reference");
  EXPECT_EQ(workers.at("reference"), reference.tp * reference.dp);
  // The same spec written out is valid, and gives the same result.
  const CheckedSpec again = CheckSpec(checked.effective);
  EXPECT_THAT(Text(again.violations), ElementsAre());
  EXPECT_TRUE(
      google::protobuf::util::MessageDifferencer::Equals(again.effective, checked.effective));
}

// Ranks that would have nothing to do are not chosen, even if there are devices for them.
TEST_F(PlanPlacementTest, EveryDataRankHasASequence) {
  v1::JobSpec spec = Ppo(1024, 8, 8);
  spec.mutable_data()->set_train_batch_size(4);
  spec.mutable_data()->clear_gen_batch_size();
  spec.mutable_rollout()->set_n(2);
  spec.mutable_actor()->set_ppo_mini_batch_size(2);
  spec.mutable_resources()->set_devices(64);
  CheckedSpec checked = CheckSpec(spec);
  ASSERT_THAT(Text(checked.violations), ElementsAre());
  EXPECT_THAT(Text(PlanPlacement(spec, checked.dataflow, &checked.effective)), ElementsAre());
  EXPECT_LE(ShapeOf(checked.effective, "actor").dp, 2);
  EXPECT_LE(ShapeOf(checked.effective, "critic").dp, 2);
  EXPECT_THAT(Text(CheckSpec(checked.effective).violations), ElementsAre());
}

TEST_F(PlanPlacementTest, SaysWhatDoesNotFit) {
  const v1::JobSpec spec = Ppo(16384, 80, 128);  // 320 billion: no device holds it
  CheckedSpec checked = CheckSpec(spec);
  ASSERT_THAT(Text(checked.violations), ElementsAre());
  EXPECT_THAT(Text(PlanPlacement(spec, checked.dataflow, &checked.effective)),
              ElementsAre(HasSubstr("spec.resources.placement: auto: nothing fits on ")));
  EXPECT_EQ(checked.effective.resources().pools_size(), 0);
}

TEST_F(PlanPlacementTest, ReadsRandomModelsAndNamesFilesThatAreNone) {
  v1::JobSpec spec = ExampleSpec("sft");
  spec.clear_resources();
  spec.mutable_model()->Clear();
  spec.mutable_model()->mutable_init()->set_characters("01");
  spec.mutable_model()->mutable_init()->set_max_position_embeddings(1 << 20);
  spec.mutable_resources()->set_placement("auto");
  spec.mutable_resources()->set_device("cpu");
  spec.mutable_resources()->set_devices(1);
  CheckedSpec checked = CheckSpec(spec);
  ASSERT_THAT(Text(checked.violations), ElementsAre());
  EXPECT_THAT(Text(PlanPlacement(spec, checked.dataflow, &checked.effective)), ElementsAre());
  EXPECT_EQ(PlacementText(checked.effective.resources()), "actor 1");

  const v1::JobSpec broken = Ppo(0, 1, 1);
  checked = CheckSpec(broken);
  ASSERT_THAT(Text(checked.violations), ElementsAre());
  EXPECT_THAT(Text(PlanPlacement(broken, checked.dataflow, &checked.effective)),
              ElementsAre(HasSubstr("config.json: hidden")));
}

TEST_F(PlanPlacementTest, LeavesOtherSpecsAlone) {
  v1::JobSpec spec = Ppo(4096, 32, 32);
  spec.mutable_resources()->set_placement("colocate");
  CheckedSpec checked = CheckSpec(spec);
  const v1::JobSpec before = checked.effective;
  EXPECT_THAT(Text(PlanPlacement(spec, checked.dataflow, &checked.effective)), ElementsAre());
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(before, checked.effective));
}

}  // namespace
}  // namespace baton::controller
