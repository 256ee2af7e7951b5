#include "controller/core/roles.h"

#include <algorithm>
#include <cstdint>
#include <set>

#include "absl/strings/str_cat.h"
#include "controller/core/pools.h"

namespace baton::controller {

bool MayTrain(absl::string_view role) { return role == "actor" || IsCritic(role); }

bool IsCritic(absl::string_view role) { return role == "critic" || role == "cost_critic"; }

CriticColumns ColumnsOf(absl::string_view critic) {
  if (critic == "cost_critic") return {"cost_values", "cost_returns"};
  return {"values", "returns"};
}

const v1::ActorSpec& TrainingOf(const v1::JobSpec& spec, absl::string_view role) {
  if (role == "critic") return spec.critic().train();
  if (role == "cost_critic") return spec.cost_critic().train();
  return spec.actor();
}

std::string TrainingPath(absl::string_view role) {
  return IsCritic(role) ? absl::StrCat(role, ".train") : std::string(role);
}

v1::ActorSpec* MutableTrainingOf(v1::JobSpec* spec, absl::string_view role) {
  if (role == "critic") return spec->mutable_critic()->mutable_train();
  if (role == "cost_critic") return spec->mutable_cost_critic()->mutable_train();
  return spec->mutable_actor();
}

const v1::ScoringModelSpec* ScoringModelOf(const v1::JobSpec& spec, absl::string_view role) {
  if (role == "reference") return &spec.reference();
  if (role == "reward_model") return &spec.reward_model();
  if (role == "cost") return &spec.cost_model();
  return nullptr;
}

v1::ScoringModelSpec* MutableScoringModelOf(v1::JobSpec* spec, absl::string_view role) {
  if (role == "reference") return spec->mutable_reference();
  if (role == "reward_model") return spec->mutable_reward_model();
  if (role == "cost") return spec->mutable_cost_model();
  return nullptr;
}

std::string ScoringModelPath(absl::string_view role) {
  return role == "cost" ? "cost_model" : std::string(role);
}

std::string ParallelPath(absl::string_view role) {
  if (MayTrain(role)) return TrainingPath(role);
  const bool scores = role == "reference" || role == "reward_model" || role == "cost";
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
    out.insert(node.role() == "actor" ? out.begin() : out.end(), {node.role(), true});
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
  if (effective.kind() != v1::JOB_KIND_RL) return workers;
  const v1::ResourcesSpec& resources = effective.resources();
  workers["rollout"] = IsHybrid(effective, dataflow)
                           ? std::max(1, RanksOf(effective, "actor") / GenerationTp(effective))
                           : resources.rollout_workers();
  for (const v1::ScoreNode& node : dataflow.score()) {
    if (MayTrain(node.role())) continue;  // who trains scores as well
    const auto asked = resources.role_workers().find(node.role());
    const v1::ScoringModelSpec* scoring = ScoringModelOf(effective, node.role());
    const bool shaped = scoring != nullptr && scoring->has_parallel();
    workers[node.role()] = node.role() == "reward" ? resources.reward_workers()
                           : shaped                ? RanksOf(effective, node.role())
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

// An earlier program checked pools, the actor's among them, and gave each role workers of its own.
static void ForgetUnusedPools(v1::JobSpec* effective) {
  if (effective->kind() != v1::JOB_KIND_RL) return;
  v1::ResourcesSpec* resources = effective->mutable_resources();
  std::set<std::string> named;
  for (const v1::PoolSpec& pool : resources->pools()) {
    named.insert(pool.roles().begin(), pool.roles().end());
  }
  if (named.count("actor") == 0 || named.count("rollout") > 0) return;
  resources->clear_pools();
  resources->clear_placement();
}

void Upgrade(store::v1::JobRow& row) {
  if (row.job().has_effective_spec())
    ForgetUnusedPools(row.mutable_job()->mutable_effective_spec());
  if (row.groups_size() > 0) return;
  store::v1::GroupRow* actor = row.add_groups();
  actor->set_role("actor");
  actor->set_generation(row.generation());
  actor->set_sequence(row.sequence());
  if (row.has_command()) *actor->mutable_command() = row.command();
  row.clear_generation();
  row.clear_sequence();
  row.clear_command();
  // Every step drew one batch.
  row.set_saved_cursor(static_cast<uint64_t>(std::max<int64_t>(row.saved_step(), 0)) *
                       GenBatchSize(row.job().effective_spec()));
}

}  // namespace baton::controller
