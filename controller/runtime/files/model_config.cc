#include "controller/runtime/files/model_config.h"

#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "controller/spec/dataflow/roles.h"
#include "nlohmann/json.hpp"
#include "sdk/common/contracts/worker_features.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {
namespace {

constexpr uintmax_t kMaxConfigBytes = 1 << 20;

// The file may have grown since its size was read.
std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxConfigBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

/// The model of a role: its own, else the job's.
const v1::ModelSpec& ModelOf(const v1::JobSpec& spec, const std::string& role) {
  const v1::ScoringModelSpec* scoring = ScoringModelOf(spec, role);
  const v1::ModelSpec& own = scoring != nullptr           ? scoring->model()
                             : role == roles::kCritic     ? spec.critic().model()
                             : role == roles::kCostCritic ? spec.cost_critic().model()
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
    config.num_attention_heads = model.init().num_attention_heads();
    config.num_key_value_heads = model.init().num_key_value_heads();
  } else {
    config = ReadModelConfig(model.path());
  }
  const int64_t heads = config.num_attention_heads, key_heads = config.num_key_value_heads;
  if (heads % tp == 0 && key_heads % tp == 0) return;
  out.push_back(
      Violation(absl::StrCat("spec.", ParallelPath(role), ".parallel.tp"),
                absl::StrCat(tp, " does not divide the model's ", heads, " attention heads and ",
                             key_heads, " key-value heads; choose a tp that divides both")));
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

// The longest sequence of a job is a prompt and a response of maximal length.
void CheckPositions(const v1::JobSpec& spec, const std::string& role,
                    std::vector<v1::FieldViolation>& out) {
  const bool own = role != roles::kActor;
  const std::string& folder = ModelOf(spec, role).path();
  if (folder.empty() || (own && folder == spec.model().path())) return;
  const int64_t positions = ReadModelConfig(folder).positions();
  const int64_t longest =
      int64_t{spec.data().max_prompt_length()} + spec.data().max_response_length();
  if (positions <= 0 || longest <= positions) return;  // unknown; the worker reports it
  out.push_back(Violation(
      own ? absl::StrCat("spec.", ScoringModelPath(role), ".model.path")
          : std::string("spec.data.max_response_length"),
      absl::StrCat(
          "max_prompt_length + max_response_length = ", longest, " exceeds the ", positions,
          " positions of the model (max_position_embeddings, or longrope's "
          "original_max_position_embeddings if that is less, in ",
          folder, "/config.json); lower one of them, or use a model with more positions")));
}

}  // namespace

std::string ModelConfigProblem(const std::string& folder) {
  const std::string file = folder + "/config.json";
  std::error_code code;
  if (!std::filesystem::exists(file, code)) return absl::StrCat("no config.json in ", folder);
  if (!std::filesystem::is_regular_file(file, code)) return absl::StrCat(file, " is not a file");
  const uintmax_t bytes = std::filesystem::file_size(file, code);
  if (code) return absl::StrCat(file, ": ", code.message());
  if (bytes <= kMaxConfigBytes) return "";
  return absl::StrCat(file, " has ", bytes, " bytes, more than ", kMaxConfigBytes,
                      "; it is not the configuration of a model");
}

ModelConfig ReadModelConfig(const std::string& folder) {
  std::string text;
  if (ModelConfigProblem(folder).empty()) text = ReadText(folder + "/config.json");
  auto config = ModelConfig::Sketch(text);
  return config.ok() ? *std::move(config) : ModelConfig::Sketch("{}").value();
}

std::set<std::string> ModelFeaturesOf(const std::string& folder) {
  std::set<std::string> out;
  const std::string type = ReadModelConfig(folder).model_type;
  for (const char* named : kFeatureModels) {
    if (type == named) out.insert(kModelFeaturePrefix + type);
  }
  const std::string file = folder + "/tokenizer_config.json";
  std::error_code code;
  if (!std::filesystem::is_regular_file(file, code)) return out;
  // Not read if it has more than 1 MiB; the worker reports it.
  const auto tokenizer = nlohmann::json::parse(ReadText(file), nullptr, /*allow_exceptions=*/false);
  if (!tokenizer.is_object()) return out;
  const auto name = tokenizer.find("tokenizer_class");
  if (name != tokenizer.end() && name->is_string() &&
      absl::StartsWith(name->get<std::string>(), "LlamaTokenizer")) {
    out.insert(kByteFallbackFeature);
  }
  return out;
}

std::vector<v1::FieldViolation> CheckModelConfigs(const v1::JobSpec& effective) {
  std::vector<v1::FieldViolation> out;
  for (const char* role : {roles::kActor, roles::kCritic, roles::kCostCritic, roles::kReference,
                           roles::kRewardModel, roles::kCost}) {
    CheckHeads(effective, role, out);
  }
  CheckPositions(effective, roles::kActor, out);
  if (effective.has_critic()) CheckPositions(effective, roles::kCritic, out);
  if (effective.has_cost_critic()) CheckPositions(effective, roles::kCostCritic, out);
  if (effective.has_reference()) CheckPositions(effective, roles::kReference, out);
  if (effective.has_reward_model()) CheckPositions(effective, roles::kRewardModel, out);
  if (effective.has_cost_model()) CheckPositions(effective, roles::kCost, out);
  if (effective.has_reward_model()) {
    CheckHasHead("spec.reward_model.model.path", effective.reward_model().model().path(), out);
  }
  if (effective.has_cost_model()) {
    CheckHasHead("spec.cost_model.model.path", effective.cost_model().model().path(), out);
  }
  return out;
}

}  // namespace baton::controller
