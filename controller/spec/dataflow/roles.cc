#include "controller/spec/dataflow/roles.h"

#include <algorithm>
#include <cstdint>
#include <set>

#include "absl/strings/str_cat.h"
#include "controller/spec/dataflow/pools.h"
#include "controller/spec/dataflow/replay.h"

namespace baton::controller {

bool MayTrain(absl::string_view role) { return role == roles::kActor || IsCritic(role); }

bool KeepsAllExperience(const v1::JobSpec& effective) {
  return effective.trainer().keep_experience() == "all";
}

bool IsCritic(absl::string_view role) {
  return role == roles::kCritic || role == roles::kCostCritic;
}

CriticColumns ColumnsOf(absl::string_view critic) {
  if (critic == roles::kCostCritic) return {"cost_values", "cost_returns"};
  return {"values", "returns"};
}

const v1::ActorSpec& TrainingOf(const v1::JobSpec& spec, absl::string_view role) {
  if (role == roles::kCritic) return spec.critic().train();
  if (role == roles::kCostCritic) return spec.cost_critic().train();
  return spec.actor();
}

std::string TrainingPath(absl::string_view role) {
  return IsCritic(role) ? absl::StrCat(role, ".train") : std::string(role);
}

v1::ActorSpec* MutableTrainingOf(v1::JobSpec* spec, absl::string_view role) {
  if (role == roles::kCritic) return spec->mutable_critic()->mutable_train();
  if (role == roles::kCostCritic) return spec->mutable_cost_critic()->mutable_train();
  return spec->mutable_actor();
}

const v1::ScoringModelSpec* ScoringModelOf(const v1::JobSpec& spec, absl::string_view role) {
  if (role == roles::kReference) return &spec.reference();
  if (role == roles::kRewardModel) return &spec.reward_model();
  if (role == roles::kCost) return &spec.cost_model();
  return nullptr;
}

v1::ScoringModelSpec* MutableScoringModelOf(v1::JobSpec* spec, absl::string_view role) {
  if (role == roles::kReference) return spec->mutable_reference();
  if (role == roles::kRewardModel) return spec->mutable_reward_model();
  if (role == roles::kCost) return spec->mutable_cost_model();
  return nullptr;
}

std::string ScoringModelPath(absl::string_view role) {
  return role == roles::kCost ? "cost_model" : std::string(role);
}

std::string ParallelPath(absl::string_view role) {
  if (MayTrain(role)) return TrainingPath(role);
  const bool scores =
      role == roles::kReference || role == roles::kRewardModel || role == roles::kCost;
  return scores ? ScoringModelPath(role) : std::string();
}

GroupShape ShapeOf(const v1::JobSpec& effective, absl::string_view role) {
  const v1::ScoringModelSpec* scoring = ScoringModelOf(effective, role);
  if (scoring == nullptr && !MayTrain(role)) return {};
  const v1::ParallelSpec& parallel =
      scoring != nullptr ? scoring->parallel() : TrainingOf(effective, role).parallel();
  return {std::max(parallel.tp(), 1), std::max(parallel.dp(), 1)};
}

std::vector<GroupRole> GroupRolesOf(const v1::JobSpec& effective, const v1::Dataflow& dataflow) {
  std::vector<GroupRole> out;
  std::set<std::string> seen;
  for (const v1::UpdateNode& node : dataflow.update()) {
    if (!seen.insert(node.role()).second) continue;
    out.insert(node.role() == roles::kActor ? out.begin() : out.end(), {node.role(), true});
  }
  for (const v1::ScoreNode& node : dataflow.score()) {
    const bool together = ShapeOf(effective, node.role()).tp > 1;
    if (together && seen.insert(node.role()).second) out.push_back({node.role(), false});
  }
  return out;
}

int RanksOf(const v1::JobSpec& effective, absl::string_view role) {
  const GroupShape shape = ShapeOf(effective, role);
  const int64_t ranks = int64_t{shape.tp} * shape.dp;
  return static_cast<int>(std::min<int64_t>(ranks, 1 << 20));  // a spec may not be checked yet
}

int GenerationTp(const v1::JobSpec& effective) {
  return std::max(effective.rollout().tensor_model_parallel_size(), 1);
}

std::map<std::string, int> WorkersOf(const v1::JobSpec& effective, const v1::Dataflow& dataflow) {
  std::map<std::string, int> workers;
  for (const v1::UpdateNode& node : dataflow.update()) {
    workers[node.role()] = RanksOf(effective, node.role());
  }
  if (effective.kind() != v1::JOB_KIND_RL || Replays(dataflow)) return workers;
  const v1::ResourcesSpec& resources = effective.resources();
  workers[roles::kRollout] =
      IsHybrid(effective, dataflow)
          ? std::max(1, RanksOf(effective, roles::kActor) / GenerationTp(effective))
          : resources.rollout_workers();
  for (const v1::ScoreNode& node : dataflow.score()) {
    if (MayTrain(node.role())) continue;  // who trains scores as well
    const auto asked = resources.role_workers().find(node.role());
    const v1::ScoringModelSpec* scoring = ScoringModelOf(effective, node.role());
    const bool shaped = scoring != nullptr && scoring->has_parallel();
    workers[node.role()] = node.role() == roles::kReward ? resources.reward_workers()
                           : shaped                      ? RanksOf(effective, node.role())
                           : asked == resources.role_workers().end() ? 1
                                                                     : asked->second;
  }
  return workers;
}

uint64_t GenBatchSize(const v1::JobSpec& effective) {
  const v1::DataSpec& data = effective.data();
  const int size = data.gen_batch_size() > 0 ? data.gen_batch_size() : data.train_batch_size();
  return static_cast<uint64_t>(size);
}

}  // namespace baton::controller
