#include "controller/core/presets.h"

namespace baton::controller {
namespace {

void Set(google::protobuf::Struct* options, const std::string& key, double value) {
  (*options->mutable_fields())[key].set_number_value(value);
}

void Set(google::protobuf::Struct* options, const std::string& key, const std::string& value) {
  (*options->mutable_fields())[key].set_string_value(value);
}

void SetBool(google::protobuf::Struct* options, const std::string& key, bool value) {
  (*options->mutable_fields())[key].set_bool_value(value);
}

v1::Dataflow SftDataflow() {
  v1::Dataflow graph;
  v1::UpdateNode* update = graph.add_update();
  update->set_role("actor");
  update->set_method("update");
  update->set_loss("sft");
  return graph;
}

v1::Dataflow GrpoDataflow(const v1::JobSpec& spec) {
  const v1::AlgorithmSpec& algorithm = spec.algorithm();
  v1::Dataflow graph;
  v1::ScoreNode* reward = graph.add_score();
  reward->set_node("reward");
  reward->set_role("reward");
  reward->set_method(spec.reward().method());
  reward->set_out("reward");

  graph.mutable_advantage()->set_estimator(algorithm.adv_estimator());
  auto* advantage = graph.mutable_advantage()->mutable_options();
  SetBool(advantage, "norm_adv_by_std_in_grpo", algorithm.norm_adv_by_std_in_grpo());
  SetBool(advantage, "filter_groups", algorithm.filter_groups());

  v1::UpdateNode* update = graph.add_update();
  update->set_role("actor");
  update->set_method("update");
  update->set_loss("ppo_clip");
  auto* loss = update->mutable_options();
  Set(loss, "clip_ratio_low", algorithm.clip_ratio_low());
  Set(loss, "clip_ratio_high", algorithm.clip_ratio_high());
  Set(loss, "clip_ratio_c", algorithm.clip_ratio_c());
  Set(loss, "loss_agg_mode", algorithm.loss_agg_mode());
  Set(loss, "entropy_coeff", algorithm.entropy_coeff());
  SetBool(loss, "use_kl_loss", algorithm.use_kl_loss());
  Set(loss, "kl_loss_coef", algorithm.kl_loss_coef());
  Set(loss, "kl_loss_type", algorithm.kl_loss_type());
  Set(loss, "temperature", spec.rollout().temperature());
  return graph;
}

}  // namespace

std::vector<std::string> PresetsOf(v1::JobKind kind) {
  if (kind == v1::JOB_KIND_RL) return {"grpo"};
  if (kind == v1::JOB_KIND_SFT) return {"sft"};
  return {};
}

std::string DefaultPreset(v1::JobKind kind) {
  const auto presets = PresetsOf(kind);
  return presets.empty() ? "" : presets.front();
}

v1::Dataflow MakeDataflow(const v1::JobSpec& effective) {
  return effective.kind() == v1::JOB_KIND_SFT ? SftDataflow() : GrpoDataflow(effective);
}

}  // namespace baton::controller
