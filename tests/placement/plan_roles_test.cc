// `baton plan` reads the roles of a spec on its own; the controller's dataflow has the same.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "controller/spec/job_spec/presets.h"
#include "controller/spec/job_spec/spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/cli/plan/plan_print.h"
#include "sdk/cli/plan/plan_problem.h"
#include "sdk/planner/placement/search.h"

namespace baton {
namespace {

std::vector<std::string> RolesOfDataflow(const v1::JobSpec& spec) {
  const v1::Dataflow graph = controller::CheckSpec(spec).dataflow;
  std::set<std::string> roles;
  for (const v1::ScoreNode& node : graph.score()) roles.insert(node.role());
  for (const v1::UpdateNode& node : graph.update()) roles.insert(node.role());
  std::vector<std::string> out;
  for (const char* role : {"actor", "critic", "cost_critic", "reference", "reward_model", "cost"}) {
    if (roles.count(role) > 0) out.emplace_back(role);
  }
  return out;
}

TEST(PlanRoles, AreThoseOfEveryPresetsDataflow) {
  for (const controller::Preset& preset : controller::Presets()) {
    SCOPED_TRACE(preset.name);
    v1::JobSpec spec = controller::ExampleSpec(preset.name);
    EXPECT_EQ(placement::ModelRoles(spec), RolesOfDataflow(spec));
    spec.clear_dataflow();
    EXPECT_EQ(placement::ModelRoles(spec), RolesOfDataflow(spec));
    if (preset.kind != v1::JOB_KIND_RL) continue;
    spec.mutable_algorithm()->set_use_kl_loss(true);
    spec.mutable_reward_model()->mutable_model()->set_path("job:rm");
    EXPECT_EQ(placement::ModelRoles(spec), RolesOfDataflow(spec));
    spec.mutable_algorithm()->set_cost_critic(true);
    spec.mutable_algorithm()->set_recompute_log_prob(true);
    EXPECT_EQ(placement::ModelRoles(spec), RolesOfDataflow(spec));
  }
}

// CreateJob takes the output of `-o yaml`.
TEST(PlanRoles, APlansPoolsAreGoodInASpec) {
  v1::JobSpec spec = controller::ExampleSpec("safe_rlhf");
  spec.clear_dataflow();
  spec.mutable_model()->set_path("/models/llama-7b");
  const auto made = cli::MakePlanProblem({spec, "", {"llama-7b"}});
  ASSERT_TRUE(made.ok()) << made.status();
  placement::Problem problem = made->problem;
  EXPECT_EQ(problem.roles.size(), 4);  // actor, critic, reference, cost
  problem.setting.device = *placement::FindDevice("h100");
  problem.devices = 32;
  placement::KeepToRunnable(spec, &problem);
  const auto result = placement::Search(problem);
  ASSERT_TRUE(result.ok()) << result.status();
  const v1::JobSpec plan = cli::PlanAsSpec({problem, *result});
  EXPECT_GE(plan.resources().pools_size(), 1);
  spec.MergeFrom(plan);
  const auto checked = controller::CheckSpec(spec);
  EXPECT_TRUE(checked.violations.empty()) << checked.violations[0].ShortDebugString();
}

}  // namespace
}  // namespace baton
