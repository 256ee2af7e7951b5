#include "controller/spec/job_spec/evaluation_only.h"

#include <algorithm>
#include <map>
#include <vector>

#include "controller/spec/dataflow/role_names.h"
#include "sdk/common/schema_spec/rewarding_nodes.h"

namespace baton::controller {
namespace {

std::set<std::string> RolesIn(const v1::Dataflow& dataflow) {
  std::set<std::string> out;
  for (const v1::ScoreNode& node : dataflow.score()) out.insert(node.role());
  for (const v1::UpdateNode& node : dataflow.update()) out.insert(node.role());
  return out;
}

// Erases the elements for which it holds.
template <class Field, class Holds>
void EraseIf(Field* field, Holds holds) {
  field->erase(std::remove_if(field->begin(), field->end(), holds), field->end());
}

}  // namespace

std::set<std::string> KeepEvaluation(v1::Dataflow* dataflow) {
  std::set<std::string> lost = RolesIn(*dataflow);
  const std::vector<bool> rewarding = RewardingNodes(*dataflow);
  for (int i = dataflow->score_size() - 1; i >= 0; --i) {
    if (!rewarding[static_cast<size_t>(i)]) dataflow->mutable_score()->DeleteSubrange(i, 1);
  }
  EraseIf(dataflow->mutable_generate(),
          [](const v1::GenerateNode& node) { return node.purpose() == "baseline"; });
  EraseIf(dataflow->mutable_update(),
          [](const v1::UpdateNode& node) { return node.role() != roles::kActor; });
  if (dataflow->update().empty()) {
    v1::UpdateNode* actor = dataflow->add_update();
    actor->set_role(roles::kActor);
    actor->set_method("update");
    actor->set_loss("ppo_clip");
  }
  for (const std::string& role : RolesIn(*dataflow)) lost.erase(role);
  return lost;
}

void ForgetRoles(const std::set<std::string>& roles, v1::JobSpec* spec) {
  const std::map<std::string, void (v1::JobSpec::*)()> sections = {
      {roles::kCritic, &v1::JobSpec::clear_critic},
      {roles::kCostCritic, &v1::JobSpec::clear_cost_critic},
      {roles::kReference, &v1::JobSpec::clear_reference},
      {roles::kRewardModel, &v1::JobSpec::clear_reward_model},
      {roles::kCost, &v1::JobSpec::clear_cost_model},
      {roles::kJudge, &v1::JobSpec::clear_judge}};
  for (const std::string& role : roles) {
    const auto section = sections.find(role);
    if (section != sections.end()) (spec->*section->second)();
    spec->mutable_resources()->mutable_role_workers()->erase(role);
  }
  for (v1::PoolSpec& pool : *spec->mutable_resources()->mutable_pools()) {
    EraseIf(pool.mutable_roles(), [&](const std::string& role) { return roles.count(role) > 0; });
    for (const std::string& role : roles) pool.mutable_layouts()->erase(role);
  }
}

}  // namespace baton::controller
