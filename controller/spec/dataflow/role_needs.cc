#include "controller/spec/dataflow/role_needs.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "controller/spec/dataflow/check_dataflow.h"
#include "controller/spec/dataflow/pools.h"
#include "controller/spec/dataflow/replay.h"
#include "controller/spec/dataflow/roles.h"
#include "sdk/common/contracts/worker_features.h"

namespace baton::controller {
namespace {

using Features = google::protobuf::RepeatedPtrField<std::string>;

bool OffersMethod(const v1::Hello& hello, const std::string& role, const std::string& method) {
  return std::any_of(
      hello.methods().begin(), hello.methods().end(),
      [&](const v1::MethodCredits& m) { return m.role() == role && m.method() == method; });
}

bool OffersFeature(const v1::Hello& hello, const std::string& feature) {
  return std::count(hello.features().begin(), hello.features().end(), feature) > 0;
}

// "qwen3" of "model_qwen3"; empty: not a feature of a model.
std::string ModelOfFeature(absl::string_view feature) {
  return absl::ConsumePrefix(&feature, kModelFeaturePrefix) ? std::string(feature) : "";
}

// True if every worker of Baton's own, of the controller's release, has the feature.
bool BatonWorkersPromise(const std::string& feature) {
  return feature == kChatTemplatesFeature || feature == kChatSettingsFeature ||
         feature == kSftEvaluationFeature || feature == kUndecayedNormsFeature ||
         feature == kByteFallbackFeature || !ModelOfFeature(feature).empty();
}

std::pair<std::string, std::string> VerbAndObject(const MissingSupport& missing) {
  if (!missing.method.empty()) return {"offer", absl::StrCat("method ", missing.method)};
  if (missing.feature == kRewardRulesFeature) return {"compute", "the rules of spec.reward"};
  if (missing.feature == kRewardCommandFeature) return {"run", "the command of spec.reward"};
  if (missing.feature == kChatTemplatesFeature) return {"read", "chat templates of models"};
  if (missing.feature == kChatSettingsFeature) return {"give", "chat templates their settings"};
  if (missing.feature == kSftEvaluationFeature) return {"evaluate", "jobs of kind sft"};
  if (missing.feature == kByteFallbackFeature) return {"read", "tokenizers with byte_fallback"};
  if (const std::string model = ModelOfFeature(missing.feature); !model.empty()) {
    return {"load", absl::StrCat("models of type ", model)};
  }
  if (missing.feature == kUndecayedNormsFeature) return {"leave", "norms and biases undecayed"};
  return {"promise", absl::StrCat("feature ", missing.feature)};
}

bool UsesOwnTemplate(const v1::ModelSpec& model) {
  return model.chat_template() == "auto" || model.chat_template() == "model";
}

bool HasTemplateSettings(const v1::ModelSpec& model) {
  return model.has_chat_template_kwargs() || model.has_chat_template_date();
}

// True of some model of the job.
bool AnyModel(const v1::JobSpec& spec, bool (*holds)(const v1::ModelSpec& model)) {
  return holds(spec.model()) || holds(spec.critic().model()) || holds(spec.cost_critic().model()) ||
         holds(spec.reference().model()) || holds(spec.reward_model().model()) ||
         holds(spec.cost_model().model()) || holds(spec.judge().model());
}

// True if a worker that knows templates alone would make other prompts, responses or rewards.
bool NeedsChatSettings(const v1::JobSpec& spec) {
  return AnyModel(spec, HasTemplateSettings) || spec.data().loss_on() == "all_assistant" ||
         spec.reward().with_prompt_suffix();
}

// Adds the features that the spec's settings and models require of roles that read prompts.
void AddPromptNeeds(const v1::JobSpec& effective, const v1::Dataflow& dataflow,
                    const Features& model_features, RoleNeeds* needs) {
  const std::set<std::string> foreign = ForeignRoles(dataflow);
  for (auto& [role, need] : *needs) {
    if (role == roles::kReward || foreign.count(role) > 0) continue;
    need.features.insert(model_features.begin(), model_features.end());
    if (AnyModel(effective, UsesOwnTemplate)) need.features.insert(kChatTemplatesFeature);
    if (NeedsChatSettings(effective)) need.features.insert(kChatSettingsFeature);
  }
  if (effective.kind() == v1::JOB_KIND_SFT && !effective.data().val_files().empty()) {
    (*needs)[roles::kActor].features.insert(kSftEvaluationFeature);
  }
}

// True if norms are not decayed. A worker of the user's own may decay everything.
bool SparesNorms(const v1::ActorSpec& train) {
  return !train.decay_norms_and_biases() && train.weight_decay() > 0;
}

}  // namespace

RoleNeeds RoleNeedsOf(const v1::JobSpec& effective, const v1::Dataflow& dataflow,
                      const Features& model_features) {
  RoleNeeds needs;
  for (const v1::UpdateNode& node : dataflow.update()) {
    if (effective.trainer().val_only()) continue;  // it neither learns nor saves
    needs[node.role()].methods.insert({node.method(), "save_checkpoint"});
    if (SparesNorms(TrainingOf(effective, node.role()))) {
      needs[node.role()].features.insert(kUndecayedNormsFeature);
    }
  }
  if (effective.kind() != v1::JOB_KIND_RL || Replays(dataflow)) {
    AddPromptNeeds(effective, dataflow, model_features, &needs);
    return needs;
  }
  const bool hybrid = IsHybrid(effective, dataflow);
  needs[roles::kActor].methods.insert(hybrid ? "to_generation" : "publish");
  needs[roles::kRollout].methods.insert("generate");
  if (!hybrid) needs[roles::kRollout].methods.insert("load_weights");
  for (const v1::ScoreNode& node : dataflow.score()) {
    needs[node.role()].methods.insert(node.method());
    needs[node.role()].scores.insert(node.method());
    // A worker of the user's own that serves another method does not read spec.reward.
    if (node.role() != roles::kReward || node.method() != "compute_reward") continue;
    std::set<std::string>& features = needs[roles::kReward].features;
    if (effective.reward().rules_size() > 0) features.insert(kRewardRulesFeature);
    if (!effective.reward().command().empty()) features.insert(kRewardCommandFeature);
  }
  AddPromptNeeds(effective, dataflow, model_features, &needs);
  return needs;
}

MissingSupport MissingFrom(const v1::Hello& hello, const std::string& role, const RoleNeed& need) {
  for (const std::string& method : need.methods) {
    if (!OffersMethod(hello, role, method)) return {method, ""};
  }
  for (const std::string& feature : need.features) {
    if (!OffersFeature(hello, feature)) return {"", feature};
  }
  return {};
}

bool PlaysRole(const v1::Hello& hello, absl::string_view role) {
  return std::any_of(hello.methods().begin(), hello.methods().end(),
                     [&](const v1::MethodCredits& m) { return m.role() == role; });
}

std::string SupportText(const MissingSupport& missing) {
  const auto [does, what] = VerbAndObject(missing);
  return absl::StrCat(does, "s ", what);
}

std::string MissingSupportText(const MissingSupport& missing, int workers) {
  const auto [does, what] = VerbAndObject(missing);
  return absl::StrCat(workers == 1 ? "does not " : "do not ", does, " ", what);
}

std::string MissingSupportRemedy(absl::string_view role, const MissingSupport& missing) {
  if (!missing.method.empty()) {
    return absl::StrCat("start the worker that serves method ", missing.method, " of role ", role);
  }
  if (missing.feature == kRewardRulesFeature) {
    return "start a worker of Baton's own: `baton-worker --roles reward`";
  }
  if (missing.feature == kRewardCommandFeature) {
    return "start workers with `baton-worker --roles reward --allow-commands`; the log of a worker "
           "that has the option says why it runs no commands";
  }
  if (BatonWorkersPromise(missing.feature)) {
    return absl::StrCat(
        "start `baton-worker --roles ", role,
        "` of the same release as the controller; a worker of your own promises feature ",
        missing.feature, " (docs/worker-protocol.md)");
  }
  return absl::StrCat("start a worker with feature ", missing.feature);
}

}  // namespace baton::controller
