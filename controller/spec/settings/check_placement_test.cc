#include "controller/spec/settings/check_placement.h"

#include "controller/spec/job_spec/presets.h"
#include "controller/spec/job_spec/spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/messages/settings.h"
#include "sdk/planner/placement/device_catalogue.h"
#include "tests/support/controller/spec.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

TEST(CheckPlacement, TakesNamesAndPools) {
  v1::JobSpec spec = PpoWithoutResources();
  spec.mutable_resources()->set_device("h100");
  spec.mutable_resources()->set_devices(16);
  for (const char* name : {"auto", "colocate", "split", "standalone"}) {
    spec.mutable_resources()->set_placement(name);
    EXPECT_THAT(Problems(spec), IsEmpty()) << name;
  }
  spec.mutable_resources()->clear_placement();
  v1::PoolSpec* pool = AddPool(&spec, {"actor", "reference", "rollout"}, 8);
  (*pool->mutable_layouts())["actor"].set_tp(4);
  (*pool->mutable_layouts())["actor"].set_dp(2);
  (*pool->mutable_layouts())["actor"].set_generation_tp(1);
  AddPool(&spec, {"critic", "reward_model"}, 0);
  EXPECT_THAT(Problems(spec), IsEmpty());
  spec.mutable_resources()->set_placement("pools");
  EXPECT_THAT(Problems(spec), IsEmpty());
  spec.mutable_resources()->mutable_pools()->RemoveLast();  // each on its own
  EXPECT_THAT(Problems(spec), IsEmpty());
}

TEST(CheckPlacement, NamesEveryProblemAtOnce) {
  v1::JobSpec spec = PpoWithoutResources();
  spec.mutable_resources()->set_placement("colocated");
  spec.mutable_resources()->set_device("a100");
  spec.mutable_resources()->set_devices(8);
  v1::PoolSpec* pool = AddPool(&spec, {"actor", "critc"}, 8);
  (*pool->mutable_layouts())["actor"].set_tp(4);
  (*pool->mutable_layouts())["reference"].set_tp(4);
  AddPool(&spec, {"reference", "actor"}, 4);
  AddPool(&spec, {}, 70000);
  EXPECT_THAT(
      Problems(spec),
      UnorderedElementsAre(
          Pair("spec.resources.placement", HasSubstr("'colocated' is not one of: colocate, split")),
          Pair("spec.resources.device", HasSubstr("'a100' is not one of: a100-80g, h100")),
          Pair("spec.resources.pools[0].roles[1]",
               "the job has no role 'critc'; it has: actor, critic, reference, reward, "
               "reward_model, rollout"),
          Pair("spec.resources.pools[0].layouts.actor",
               "pp 1 x tp 4 x dp 1 are 4 ranks; its pool has 8 devices"),
          Pair("spec.resources.pools[0].layouts.reference", "is not a role of pools[0]"),
          Pair("spec.resources.pools[1].roles[1]", "actor is already in pools[0]"),
          Pair("spec.resources.pools[2].roles", HasSubstr("is missing")),
          Pair("spec.resources.pools[2].devices", "70000 is not in [1, 65536]"),
          Pair("spec.resources.pools", "have 70012 devices together; resources.devices is 8")));
}

TEST(CheckPlacement, EveryDeviceThatASpecMayNameIsInTheCatalogue) {
  const v1::Setting setting = SettingOf<v1::ResourcesSpec>(v1::ResourcesSpec::kDeviceFieldNumber);
  EXPECT_EQ(setting.one_of_size(), static_cast<int>(placement::KnownDevices().size()));
  for (const std::string& name : setting.one_of()) {
    EXPECT_NE(placement::FindDevice(name), nullptr) << name;
  }
}

TEST(CheckPlacement, AutoNeedsDevicesAndChoosesTheRest) {
  v1::JobSpec spec = PpoWithoutResources();
  spec.mutable_resources()->set_placement("auto");
  EXPECT_THAT(
      Problems(spec),
      ElementsAre(Pair("spec.resources.devices", HasSubstr("is missing; placement auto needs")),
                  Pair("spec.resources.device", HasSubstr("a100-80g, h100, h200, l40s, cpu"))));
  spec.mutable_resources()->set_devices(8);
  spec.mutable_resources()->set_device("h200");
  spec.mutable_resources()->set_reward_workers(2);  // no role of the plan
  EXPECT_THAT(Problems(spec), IsEmpty());
  spec.mutable_actor()->mutable_parallel()->set_dp(1);
  spec.mutable_critic()->mutable_train()->mutable_parallel()->set_tp(1);
  spec.mutable_rollout()->set_tensor_model_parallel_size(1);
  spec.mutable_resources()->set_rollout_workers(1);
  (*spec.mutable_resources()->mutable_role_workers())["reward_model"] = 1;
  const auto chosen = HasSubstr("placement auto chooses it; remove it, or write resources.pools");
  EXPECT_THAT(Problems(spec),
              UnorderedElementsAre(Pair("spec.actor.parallel", chosen),
                                   Pair("spec.critic.train.parallel", chosen),
                                   Pair("spec.rollout.tensor_model_parallel_size", chosen),
                                   Pair("spec.resources.rollout_workers", chosen),
                                   Pair("spec.resources.role_workers.reward_model", chosen)));
}

TEST(CheckPlacement, NamesWhatTheEngineHasNot) {
  v1::JobSpec spec = PpoWithoutResources();
  auto& layouts = *AddPool(&spec, {"actor", "reward", "reference"}, 0)->mutable_layouts();
  layouts["actor"].set_pp(2);
  layouts["reward"].set_tp(2);
  layouts["reference"].set_dp(1025);
  layouts["reference"].set_generation_tp(1);
  const std::string field = "spec.resources.pools[0].layouts.";
  EXPECT_THAT(
      Problems(spec),
      ElementsAre(
          Pair(field + "actor", "pp 2: Baton's engine has no pipeline stages; use tp and dp"),
          Pair(field + "reference", "generation_tp and generation_pp are the actor's; remove them"),
          Pair(field + "reference", "dp 1025: is not in [1, 1024]"),
          Pair(field + "reward", "tp 2: role reward has no tensor-parallel ranks; use dp")));
}

TEST(CheckPlacement, PoolsBelongToPlacementPools) {
  v1::JobSpec spec = PpoWithoutResources();
  spec.mutable_resources()->set_placement("pools");
  EXPECT_THAT(Problems(spec), ElementsAre(Pair("spec.resources.pools", HasSubstr("is missing"))));
  spec.mutable_resources()->set_placement("split");
  AddPool(&spec, {"actor", "critic", "reference", "reward_model"}, 8);
  EXPECT_THAT(Problems(spec),
              ElementsAre(Pair("spec.resources.pools", HasSubstr("makes its own pools"))));
}

TEST(CheckPlacement, ALayoutsSizesDivide) {
  v1::JobSpec spec = PpoWithoutResources();
  v1::PoolSpec* pool = AddPool(&spec, {"actor", "critic", "reference", "reward_model"}, 8);
  v1::LayoutSpec& layout = (*pool->mutable_layouts())["actor"];
  layout.set_tp(8);
  layout.set_generation_tp(3);
  EXPECT_THAT(Problems(spec), ElementsAre(Pair("spec.resources.pools[0].layouts.actor",
                                               "generation_tensor: 3 does not divide tensor (8)")));
  layout.set_generation_tp(0);
  EXPECT_THAT(Problems(spec), ElementsAre(Pair("spec.resources.pools[0].layouts.actor",
                                               "generation_tensor: 0 is below 1")));
  layout.set_generation_tp(1);
  layout.set_dp(2000000000);
  EXPECT_THAT(Problems(spec), ElementsAre(Pair("spec.resources.pools[0].layouts.actor",
                                               "2000000000 is more than 65536")));
}

}  // namespace
}  // namespace baton::controller
