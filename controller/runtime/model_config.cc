#include "controller/runtime/model_config.h"

#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "controller/core/roles.h"
#include "nlohmann/json.hpp"
#include "sdk/rpc/error.h"

namespace baton::controller {
namespace {

using Json = nlohmann::json;

int Number(const Json& json, const char* key) {
  const auto found = json.find(key);
  const bool sound = found != json.end() && found->is_number_integer();
  return sound ? found->get<int>() : 0;
}

/// The model that a role holds: its own, else the job's.
const v1::ModelSpec& ModelOf(const v1::JobSpec& spec, const std::string& role) {
  const v1::ScoringModelSpec* scoring = ScoringModelOf(spec, role);
  const v1::ModelSpec& own = scoring != nullptr      ? scoring->model()
                             : role == "critic"      ? spec.critic().model()
                             : role == "cost_critic" ? spec.cost_critic().model()
                                                     : spec.model();
  return own.has_path() || own.has_init() ? own : spec.model();
}

void CheckHeads(const v1::JobSpec& spec, const std::string& role,
                std::vector<v1::FieldViolation>& out) {
  const int tp = ShapeOf(spec, role).tp;
  if (tp <= 1) return;
  const v1::ModelSpec& model = ModelOf(spec, role);
  ModelConfig config;
  if (model.path().empty()) {
    config.heads = model.init().num_attention_heads();
    config.key_heads = model.init().num_key_value_heads();
  } else {
    config = ReadModelConfig(model.path());
  }
  if (config.heads % tp == 0 && config.key_heads % tp == 0) return;
  out.push_back(Violation(
      absl::StrCat("spec.", ParallelPath(role), ".parallel.tp"),
      absl::StrCat(tp, " does not divide the model's ", config.heads, " attention heads and ",
                   config.key_heads, " key-value heads; choose a tp that divides both")));
}

void CheckHasHead(const std::string& field, const std::string& folder,
                  std::vector<v1::FieldViolation>& out) {
  const std::string architecture = ReadModelConfig(folder).architecture;
  if (!absl::EndsWith(architecture, "ForCausalLM")) return;
  out.push_back(Violation(
      field, absl::StrCat(folder, "/config.json says ", architecture,
                          ", which has no scalar head, so it cannot score; give the result of a "
                          "job of kind reward_model (job:NAME), or another ...Classification")));
}

}  // namespace

ModelConfig ReadModelConfig(const std::string& folder) {
  ModelConfig config;
  std::ifstream file(folder + "/config.json");
  const Json json = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return config;
  config.heads = Number(json, "num_attention_heads");
  config.key_heads = Number(json, "num_key_value_heads");
  if (config.key_heads == 0) config.key_heads = config.heads;
  const auto names = json.find("architectures");
  if (names != json.end() && names->is_array() && !names->empty() && names->front().is_string()) {
    config.architecture = names->front().get<std::string>();
  }
  return config;
}

std::vector<v1::FieldViolation> CheckModelConfigs(const v1::JobSpec& effective) {
  std::vector<v1::FieldViolation> out;
  for (const char* role : {"actor", "critic", "cost_critic", "reference", "reward_model", "cost"}) {
    CheckHeads(effective, role, out);
  }
  if (effective.has_reward_model()) {
    CheckHasHead("spec.reward_model.model.path", effective.reward_model().model().path(), out);
  }
  if (effective.has_cost_model()) {
    CheckHasHead("spec.cost_model.model.path", effective.cost_model().model().path(), out);
  }
  return out;
}

}  // namespace baton::controller
