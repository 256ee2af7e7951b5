#include "controller/spec/settings/fill_pools.h"

#include <algorithm>
#include <map>
#include <random>

#include "controller/spec/dataflow/pools.h"
#include "controller/spec/dataflow/roles.h"
#include "controller/spec/job_spec/presets.h"
#include "controller/spec/job_spec/spec.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "tests/support/controller/spec.h"

namespace baton::controller {
namespace {

using ::google::protobuf::util::MessageDifferencer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

// "rollout actor 4".
std::vector<std::string> PoolsText(const v1::JobSpec& spec) {
  const CheckedSpec checked = CheckSpec(spec);
  std::vector<std::string> out;
  for (const RolePool& pool : PoolsOf(checked.effective, checked.dataflow)) {
    out.emplace_back();
    for (const std::string& role : pool.roles) out.back() += role + " ";
    out.back() += std::to_string(pool.workers);
  }
  return out;
}

TEST(FillPools, NamesBecomePools) {
  v1::JobSpec spec = PpoWithoutResources();
  EXPECT_THAT(PoolsText(spec), UnorderedElementsAre("rollout 1", "actor 1", "reward 1", "critic 1",
                                                    "reference 1", "reward_model 1"));
  spec.mutable_actor()->mutable_parallel()->set_tp(2);
  spec.mutable_actor()->mutable_parallel()->set_dp(2);
  spec.mutable_critic()->mutable_train()->mutable_parallel()->set_dp(3);
  (*spec.mutable_resources()->mutable_role_workers())["reward_model"] = 2;
  spec.mutable_resources()->set_placement("colocate");
  EXPECT_THAT(Problems(spec), IsEmpty());
  const CheckedSpec checked = CheckSpec(spec);
  ASSERT_EQ(checked.effective.resources().pools_size(), 1);
  const v1::PoolSpec& pool = checked.effective.resources().pools(0);
  EXPECT_THAT(pool.roles(),
              UnorderedElementsAre("rollout", "actor", "critic", "reference", "reward_model"));
  EXPECT_EQ(pool.devices(), 4);
  // Critic and reward model leave workers idle: their layouts are not their pool's.
  ASSERT_EQ(pool.layouts_size(), 2);
  EXPECT_EQ(pool.layouts().at("reference").ShortDebugString(), "tp: 1 dp: 4");
  EXPECT_EQ(pool.layouts().at("actor").ShortDebugString(), "tp: 2 dp: 2 generation_tp: 1");
  EXPECT_THAT(
      WorkersOf(checked.effective, checked.dataflow),
      UnorderedElementsAre(Pair("rollout", 4), Pair("actor", 4), Pair("critic", 3),
                           Pair("reference", 4), Pair("reward_model", 2), Pair("reward", 1)));
  EXPECT_EQ(checked.effective.resources().rollout_workers(), 4);
  EXPECT_EQ(checked.effective.resources().placement(), "pools");
  EXPECT_TRUE(IsHybrid(checked.effective, checked.dataflow));

  spec.mutable_resources()->set_placement("split");
  std::vector<std::string> pools = PoolsText(spec);
  ASSERT_EQ(pools.size(), 3u);  // the rewards of rules have workers of their own
  EXPECT_EQ(pools[0], "rollout reference actor 4");
  EXPECT_THAT(pools[1], ::testing::AnyOf("critic reward_model 3", "reward_model critic 3"));
  EXPECT_EQ(pools[2], "reward 1");

  spec.mutable_resources()->set_placement("standalone");
  EXPECT_THAT(PoolsText(spec), UnorderedElementsAre("rollout actor 4", "reference 1", "critic 3",
                                                    "reward_model 2", "reward 1"));
}

TEST(FillPools, GivesJobsOfOtherKindsOnePool) {
  v1::JobSpec spec = ExampleSpec("sft");
  spec.clear_resources();
  spec.mutable_actor()->mutable_parallel()->set_dp(2);
  spec.mutable_resources()->set_placement("colocate");
  EXPECT_THAT(Problems(spec), IsEmpty());
  EXPECT_THAT(PoolsText(spec), ElementsAre("actor 2"));
  EXPECT_EQ(CheckSpec(spec).effective.resources().pools(0).roles_size(), 1);
}

TEST(FillPools, LayoutsBecomeNumbers) {
  v1::JobSpec spec = PpoWithoutResources();
  v1::PoolSpec* policy = AddPool(&spec, {"actor", "reference"}, 4);
  (*policy->mutable_layouts())["actor"].set_tp(2);
  (*policy->mutable_layouts())["actor"].set_dp(2);
  (*policy->mutable_layouts())["actor"].set_generation_tp(1);
  (*policy->mutable_layouts())["reference"].set_dp(4);
  v1::PoolSpec* other = AddPool(&spec, {"critic", "reward_model"});
  (*other->mutable_layouts())["critic"].set_dp(2);
  (*other->mutable_layouts())["reward_model"].set_tp(2);
  EXPECT_THAT(Problems(spec), IsEmpty());
  const CheckedSpec checked = CheckSpec(spec);
  EXPECT_EQ(checked.effective.actor().parallel().ShortDebugString(), "tp: 2 dp: 2");
  EXPECT_EQ(checked.effective.critic().train().parallel().ShortDebugString(), "tp: 1 dp: 2");
  EXPECT_EQ(checked.effective.rollout().tensor_model_parallel_size(), 1);
  EXPECT_EQ(checked.effective.reference().parallel().ShortDebugString(), "tp: 1 dp: 4");
  EXPECT_EQ(checked.effective.reward_model().parallel().ShortDebugString(), "tp: 2 dp: 1");
  EXPECT_THAT(
      PoolsText(spec),
      ElementsAre("rollout reference actor 4",
                  ::testing::AnyOf("critic reward_model 2", "reward_model critic 2"), "reward 1"));
  EXPECT_THAT(checked.effective.resources().pools(0).roles(),
              ElementsAre("actor", "reference", "rollout"));
}

// A shape that is given beside a layout may have only a part of its sizes.
TEST(FillPools, LayoutsAgreeWithAPartOfAShape) {
  v1::JobSpec spec = PpoWithoutResources();
  v1::LayoutSpec& layout =
      (*AddPool(&spec, {"reference", "critic"}, 4)->mutable_layouts())["reference"];
  layout.set_tp(2);
  layout.set_dp(2);
  spec.mutable_reference()->mutable_parallel()->set_tp(2);
  EXPECT_THAT(Problems(spec), IsEmpty());
  EXPECT_EQ(CheckSpec(spec).effective.reference().parallel().ShortDebugString(), "tp: 2 dp: 2");
  spec.mutable_reference()->mutable_parallel()->set_tp(4);
  EXPECT_THAT(Problems(spec),
              ElementsAre(Pair("spec.resources.pools[0].layouts.reference",
                               "tp is 2, but spec.reference.parallel.tp is 4; give one of the "
                               "two")));
}

// Rollouts that are named elsewhere have a number of their own.
TEST(FillPools, RolloutsApartFromTheActor) {
  v1::JobSpec spec = PpoWithoutResources();
  AddPool(&spec, {"actor", "critic"});
  v1::PoolSpec* pool = AddPool(&spec, {"rollout", "reward"}, 3);
  EXPECT_THAT(Problems(spec), IsEmpty());
  EXPECT_EQ(CheckSpec(spec).effective.resources().rollout_workers(), 3);
  EXPECT_EQ(CheckSpec(spec).effective.resources().reward_workers(), 3);
  (*pool->mutable_layouts())["rollout"].set_dp(3);
  spec.mutable_resources()->set_rollout_workers(2);
  EXPECT_THAT(Problems(spec),
              ElementsAre(Pair("spec.resources.pools[1].layouts.rollout",
                               "dp is 3, but spec.resources.rollout_workers is 2; give one of the "
                               "two")));
}

TEST(FillPools, NamesContradictions) {
  v1::JobSpec spec = PpoWithoutResources();
  v1::PoolSpec* pool = AddPool(&spec, {"actor", "critic", "reference"}, 4);
  auto& layouts = *pool->mutable_layouts();
  layouts["actor"].set_tp(2);
  layouts["actor"].set_dp(2);
  layouts["critic"].set_dp(4);
  layouts["reference"].set_dp(4);
  spec.mutable_actor()->mutable_parallel()->set_tp(4);
  spec.mutable_critic()->mutable_train()->mutable_parallel()->set_dp(2);
  (*spec.mutable_resources()->mutable_role_workers())["reference"] = 3;
  const std::string field = "spec.resources.pools[0].layouts.";
  EXPECT_THAT(
      Problems(spec),
      ElementsAre(
          Pair(field + "actor", "tp is 2, but spec.actor.parallel.tp is 4; give one of the two"),
          Pair(field + "critic",
               "dp is 4, but spec.critic.train.parallel.dp is 2; give one of the two"),
          Pair(field + "reference",
               "tp x dp is 4, but spec.resources.role_workers.reference is 3; give one of the "
               "two")));

  v1::JobSpec hybrid = PpoWithoutResources();
  hybrid.mutable_resources()->set_placement("colocate");
  hybrid.mutable_actor()->mutable_parallel()->set_dp(2);
  hybrid.mutable_resources()->set_rollout_workers(4);
  EXPECT_THAT(Problems(hybrid),
              ElementsAre(Pair("spec.resources.rollout_workers",
                               "is 4, but actor and rollouts share a pool, so they are "
                               "replicas of the actor's ranks (2); remove it")));
  hybrid.mutable_resources()->set_rollout_workers(2);
  EXPECT_THAT(Problems(hybrid), IsEmpty());
}

TEST(FillPools, ALayoutSpansItsPool) {
  v1::JobSpec spec = PpoWithoutResources();
  auto& layouts = *AddPool(&spec, {"actor", "critic", "rollout"})->mutable_layouts();
  layouts["actor"].set_tp(2);
  layouts["actor"].set_dp(2);
  layouts["critic"].set_dp(3);
  layouts["rollout"].set_dp(2);
  const std::string field = "spec.resources.pools[0].layouts.";
  EXPECT_THAT(
      Problems(spec),
      ElementsAre(Pair(field + "rollout", "the rollouts are the actor's ranks (4); remove it"),
                  Pair(field + "critic",
                       "3 ranks do not fill the pool, which has 4 workers because of actor; give "
                       "critic as many, or set its number outside of layouts"),
                  Pair(field + "rollout", HasSubstr("2 ranks do not fill the pool"))));
  layouts["critic"].set_dp(4);
  layouts["rollout"].set_dp(4);
  EXPECT_THAT(Problems(spec), IsEmpty());
}

TEST(FillPools, ADevicesCountFitsItsRoles) {
  v1::JobSpec spec = PpoWithoutResources();
  spec.mutable_actor()->mutable_parallel()->set_dp(4);
  AddPool(&spec, {"actor"}, 3);
  AddPool(&spec, {"critic"}, 2);
  AddPool(&spec, {"reference"}, 5);  // no number of its own: all five
  EXPECT_THAT(Problems(spec),
              ElementsAre(Pair("spec.resources.pools[0].devices",
                               "3 are too few: actor has 4 ranks; raise it, or remove it"),
                          Pair("spec.resources.pools[1].devices",
                               HasSubstr("2 are too many: none of its roles has more than 1; give "
                                         "layouts of 2 ranks"))));
  spec.mutable_resources()->mutable_pools(0)->set_devices(4);
  spec.mutable_resources()->mutable_pools(1)->set_devices(1);
  EXPECT_THAT(Problems(spec), IsEmpty());
  EXPECT_EQ(CheckSpec(spec).effective.reference().parallel().ShortDebugString(), "tp: 1 dp: 5");
}

// A layout is checked like the numbers that it replaces, and errors name the layout's field.
TEST(FillPools, RanksWithoutWorkAreNamedAtTheLayout) {
  v1::JobSpec spec = PpoWithoutResources();
  spec.mutable_critic()->mutable_train()->set_ppo_mini_batch_size(4);
  (*AddPool(&spec, {"critic"})->mutable_layouts())["critic"].set_dp(8);
  EXPECT_THAT(Problems(spec), ElementsAre(Pair("spec.resources.pools[0].layouts.critic.dp",
                                               HasSubstr("8 data ranks share mini-batches of 4"))));
}

TEST(FillPools, GenerationOnTensorRanksNeedsTheActors) {
  v1::JobSpec spec = PpoWithoutResources();
  spec.mutable_rollout()->set_tensor_model_parallel_size(2);
  const auto problem = [&](const std::string& text) {
    EXPECT_THAT(Problems(spec),
                ElementsAre(Pair("spec.rollout.tensor_model_parallel_size", HasSubstr(text))));
  };
  problem("for which actor and rollouts have to share their workers");
  spec.mutable_resources()->set_placement("colocate");
  problem("2 does not divide actor.parallel.tp (1)");
  spec.mutable_actor()->mutable_parallel()->set_tp(4);
  EXPECT_THAT(Problems(spec), ElementsAre());
  spec.mutable_rollout()->set_tensor_model_parallel_size(3);
  problem("3 does not divide actor.parallel.tp (4)");
}

// A filled-in spec may be filled in again: nothing changes, and there is no problem.
TEST(FillPools, FillingAFilledSpecChangesNothing) {
  std::vector<v1::JobSpec> specs;
  for (const char* name : {"colocate", "split", "standalone"}) {
    specs.push_back(PpoWithoutResources());
    specs.back().mutable_actor()->mutable_parallel()->set_tp(2);
    specs.back().mutable_resources()->set_placement(name);
  }
  specs.push_back(PpoWithoutResources());
  AddPool(&specs.back(), {"critic", "reward_model", "reward"}, 1);
  specs.push_back(PpoWithoutResources());
  AddPool(&specs.back(), {"actor", "reference"}, 1);
  specs.push_back(PpoWithoutResources());  // the largest group there may be
  specs.back().mutable_data()->set_train_batch_size(1024);
  specs.back().mutable_data()->clear_gen_batch_size();
  specs.back().mutable_actor()->clear_ppo_mini_batch_size();
  specs.back().mutable_actor()->mutable_parallel()->set_tp(64);
  specs.back().mutable_actor()->mutable_parallel()->set_dp(1024);
  specs.back().mutable_resources()->set_placement("standalone");
  EXPECT_EQ(CheckSpec(specs.back()).effective.resources().rollout_workers(), 65536);
  for (const v1::JobSpec& spec : specs) {
    const CheckedSpec once = CheckSpec(spec);
    EXPECT_THAT(Problems(spec), IsEmpty());
    EXPECT_THAT(Problems(once.effective), IsEmpty());
    const CheckedSpec again = CheckSpec(once.effective);
    EXPECT_TRUE(MessageDifferencer::Equals(again.effective, once.effective))
        << once.effective.resources().DebugString() << again.effective.resources().DebugString();
  }
}

// For any pools, either a problem is named, or every role has its workers and the filled-in spec
// stays as it is.
TEST(FillPools, RandomSpecsAreEitherRefusedOrFilled) {
  std::mt19937 rng(5);
  const auto any = [&](const std::vector<int>& of) { return of[rng() % of.size()]; };
  const std::vector<std::string> names = {"actor",     "rollout",      "critic", "reward",
                                          "reference", "reward_model", "nobody"};
  const std::vector<int> size = {1, 1, 1, 2, 3, 4};
  int good = 0, hybrid = 0, refused = 0;
  for (int round = 0; round < 4000; ++round) {
    v1::JobSpec spec = PpoWithoutResources();
    const auto layout = [&](v1::LayoutSpec* out, bool actor) {
      if (actor && any({0, 1})) out->set_tp(any({1, 2}));
      if (any({0, 1, 1})) out->set_dp(any(size));
      if (any({0, 0, 0, 0, 0, 1})) out->set_generation_tp(any({1, 2}));
    };
    v1::ResourcesSpec* resources = spec.mutable_resources();
    const int pools = any({0, 1, 2, 3});
    for (int i = 0; i < pools; ++i) resources->add_pools();
    for (const std::string& name : names) {
      const int at = static_cast<int>(rng() % 4);
      if (pools == 0 || at >= pools || (name == "nobody" && any({0, 1, 1}))) continue;
      resources->mutable_pools(at)->add_roles(name);
      if (any({0, 0, 1})) {
        layout(&(*resources->mutable_pools(at)->mutable_layouts())[name], name == "actor");
      }
    }
    for (v1::PoolSpec& pool : *resources->mutable_pools()) {
      if (any({0, 0, 1})) pool.set_devices(any({1, 2, 4}));
    }
    if (pools == 0) resources->set_placement(any({0, 1}) ? "colocate" : "split");
    if (any({0, 1})) spec.mutable_actor()->mutable_parallel()->set_tp(any(size));
    if (any({0, 1})) spec.mutable_critic()->mutable_train()->mutable_parallel()->set_dp(any(size));
    if (any({0, 0, 1})) resources->set_rollout_workers(any(size));
    if (any({0, 0, 1})) (*resources->mutable_role_workers())["reference"] = any(size);
    if (any({0, 0, 1})) spec.mutable_reference()->mutable_parallel()->set_tp(any(size));
    if (any({0, 0, 1})) spec.mutable_reward_model()->mutable_parallel()->set_dp(any(size));
    SCOPED_TRACE(resources->DebugString());
    const CheckedSpec checked = CheckSpec(spec);
    if (!checked.violations.empty()) {
      ++refused;
      for (const auto& violation : checked.violations)
        EXPECT_THAT(violation.field(), HasSubstr("spec."));
      continue;
    }
    ++good;
    const v1::JobSpec& effective = checked.effective;
    const auto workers = WorkersOf(effective, checked.dataflow);
    hybrid += IsHybrid(effective, checked.dataflow) ? 1 : 0;
    if (IsHybrid(effective, checked.dataflow)) {
      EXPECT_EQ(workers.at("rollout") * GenerationTp(effective), workers.at("actor"));
    }
    EXPECT_EQ(workers.at("rollout"), effective.resources().rollout_workers());
    std::map<std::string, int> times;
    const std::vector<RolePool> made = PoolsOf(effective, checked.dataflow);
    for (size_t i = 0; i < made.size(); ++i) {
      int largest = 0;
      for (const std::string& role : made[i].roles) {
        ++times[role];
        largest = std::max(largest, workers.at(role));
      }
      EXPECT_EQ(made[i].workers, largest);
      if (i < static_cast<size_t>(effective.resources().pools_size())) {
        EXPECT_EQ(made[i].workers, effective.resources().pools(static_cast<int>(i)).devices());
      }
    }
    for (const auto& [role, count] : workers) {
      EXPECT_GE(count, 1) << role;
      EXPECT_EQ(times[role], 1) << role;
    }
    const CheckedSpec again = CheckSpec(effective);
    EXPECT_TRUE(again.violations.empty()) << again.violations[0].DebugString();
    EXPECT_TRUE(MessageDifferencer::Equals(again.effective, effective));
  }
  EXPECT_GE(good, 200);
  EXPECT_GE(hybrid, 100);
  EXPECT_GE(refused, 200);
}

}  // namespace
}  // namespace baton::controller
