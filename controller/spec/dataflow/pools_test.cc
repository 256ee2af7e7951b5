#include "controller/spec/dataflow/pools.h"

#include "controller/spec/dataflow/roles.h"
#include "controller/spec/job_spec/presets.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

// rollout; reward, reference, critic score; actor and critic learn.
struct Parts {
  v1::JobSpec spec;
  v1::Dataflow dataflow;
};

Parts PpoParts() {
  Parts job;
  job.spec.set_kind(v1::JOB_KIND_RL);
  v1::ResourcesSpec* resources = job.spec.mutable_resources();
  resources->set_rollout_workers(3);
  resources->set_reward_workers(2);
  (*resources->mutable_role_workers())["reference"] = 5;
  job.spec.mutable_actor()->mutable_parallel()->set_tp(2);
  job.spec.mutable_actor()->mutable_parallel()->set_dp(2);
  job.spec.mutable_critic()->mutable_train()->mutable_parallel()->set_dp(2);
  for (const char* role : {"reward", "reference", "critic"}) {
    v1::ScoreNode* node = job.dataflow.add_score();
    node->set_node(role);
    node->set_role(role);
  }
  for (const char* role : {"actor", "critic"}) job.dataflow.add_update()->set_role(role);
  return job;
}

void AddPoolOf(Parts* job, const std::vector<std::string>& roles) {
  v1::PoolSpec* pool = job->spec.mutable_resources()->add_pools();
  for (const std::string& role : roles) pool->add_roles(role);
}

using Text = std::vector<std::pair<std::vector<std::string>, int>>;
Text TextOf(const Parts& job) {
  Text out;
  for (const RolePool& pool : PoolsOf(job.spec, job.dataflow)) {
    out.emplace_back(pool.roles, pool.workers);
  }
  return out;
}

TEST(Pools, WithoutPoolsEveryRoleIsOnItsOwn) {
  const Parts job = PpoParts();
  EXPECT_THAT(TextOf(job),
              ElementsAre(Pair(ElementsAre("rollout"), 3), Pair(ElementsAre("reward"), 2),
                          Pair(ElementsAre("reference"), 5), Pair(ElementsAre("critic"), 2),
                          Pair(ElementsAre("actor"), 4)));
  EXPECT_FALSE(IsHybrid(job.spec, job.dataflow));
}

TEST(Pools, RolesOfAPoolAreInTheOrderOfTheDataflow) {
  Parts job = PpoParts();
  AddPoolOf(&job, {"actor", "critic", "rollout"});
  AddPoolOf(&job, {"reference", "reward"});
  EXPECT_THAT(TextOf(job), ElementsAre(Pair(ElementsAre("rollout", "critic", "actor"), 4),
                                       Pair(ElementsAre("reward", "reference"), 5)));
}

TEST(Pools, RolloutsGoWhereTheActorIs) {
  Parts job = PpoParts();
  AddPoolOf(&job, {"critic"});
  AddPoolOf(&job, {"actor", "reference"});
  EXPECT_THAT(TextOf(job), ElementsAre(Pair(ElementsAre("critic"), 2),
                                       Pair(ElementsAre("rollout", "reference", "actor"), 5),
                                       Pair(ElementsAre("reward"), 2)));
  EXPECT_TRUE(IsHybrid(job.spec, job.dataflow));
  // The rollouts are the actor's ranks, so rollout_workers does not matter.
  EXPECT_THAT(WorkersOf(job.spec, job.dataflow),
              UnorderedElementsAre(Pair("rollout", 4), Pair("reward", 2), Pair("reference", 5),
                                   Pair("critic", 2), Pair("actor", 4)));
  job.spec.mutable_rollout()->set_tensor_model_parallel_size(2);
  EXPECT_EQ(WorkersOf(job.spec, job.dataflow).at("rollout"), 2);
}

TEST(Pools, RolloutsStayWhereTheyAreNamed) {
  Parts job = PpoParts();
  AddPoolOf(&job, {"actor"});
  AddPoolOf(&job, {"rollout", "reward"});
  EXPECT_THAT(TextOf(job),
              ElementsAre(Pair(ElementsAre("actor"), 4), Pair(ElementsAre("rollout", "reward"), 3),
                          Pair(ElementsAre("reference"), 5), Pair(ElementsAre("critic"), 2)));
  EXPECT_FALSE(IsHybrid(job.spec, job.dataflow));
  job.spec.mutable_resources()->clear_pools();
  AddPoolOf(&job, {"critic", "reference"});  // the actor is in none: the rollouts are on their own
  EXPECT_FALSE(IsHybrid(job.spec, job.dataflow));
}

TEST(Pools, PassesOverRolesThatTheJobHasNotAndSecondMentions) {
  Parts job = PpoParts();
  AddPoolOf(&job, {"cost"});
  AddPoolOf(&job, {"critic", "critic", "nobody"});
  AddPoolOf(&job, {"reference", "critic"});
  EXPECT_THAT(TextOf(job),
              ElementsAre(Pair(ElementsAre("critic"), 2), Pair(ElementsAre("reference"), 5),
                          Pair(ElementsAre("rollout"), 3), Pair(ElementsAre("reward"), 2),
                          Pair(ElementsAre("actor"), 4)));
}

TEST(Pools, OtherKindsHaveAnActorPoolOnly) {
  Parts job;
  job.spec.set_kind(v1::JOB_KIND_SFT);
  job.dataflow.add_update()->set_role("actor");
  EXPECT_THAT(TextOf(job), ElementsAre(Pair(ElementsAre("actor"), 1)));
  AddPoolOf(&job, {"actor", "rollout"});
  EXPECT_THAT(TextOf(job), ElementsAre(Pair(ElementsAre("actor"), 1)));
  EXPECT_FALSE(IsHybrid(job.spec, job.dataflow));
}

// Every preset's roles with workers are in exactly one pool.
TEST(Pools, CoverTheRolesOfEveryPreset) {
  for (const Preset& preset : Presets()) {
    Parts job;
    job.spec = ExampleSpec(preset.name);
    job.dataflow = MakeDataflow(job.spec);
    for (const bool shared : {false, true}) {
      if (shared) AddPoolOf(&job, {"reference", "actor", "judge"});
      std::map<std::string, int> times, once;
      for (const RolePool& pool : PoolsOf(job.spec, job.dataflow)) {
        EXPECT_THAT(pool.roles, ::testing::Not(IsEmpty()));
        for (const std::string& role : pool.roles) ++times[role];
      }
      for (const auto& [role, count] : WorkersOf(job.spec, job.dataflow)) once[role] = 1;
      EXPECT_EQ(times, once) << preset.name;
    }
  }
}

}  // namespace
}  // namespace baton::controller
