#include "workers/engine/scalar/scalar_directory.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "sdk/common/base/status_macros.h"
#include "workers/engine/model/file_tensors.h"

namespace baton::engine {
namespace {

using Json = nlohmann::json;

constexpr char kWeight[] = "score.weight";
constexpr char kBias[] = "score.bias";

/// The first of config.json's architectures, or "".
std::string ArchitectureOf(const std::string& config_json) {
  const Json json = Json::parse(config_json, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("architectures")) return "";
  const Json& names = json["architectures"];
  return names.is_array() && !names.empty() && names[0].is_string() ? names[0].get<std::string>()
                                                                    : "";
}

absl::Status NoHead(const std::string& dir, const std::string& architecture) {
  return absl::NotFoundError(absl::StrCat(
      dir, ": tensor ", kWeight, " is missing: this ",
      architecture.empty() ? "model" : architecture,
      " has no scalar head and cannot score; name the directory of a reward model (a job of kind "
      "reward_model writes one; transformers calls it ...ForSequenceClassification)"));
}

std::string ConfigJson(const ModelConfig& config, bool head_bias) {
  Json json = Json::parse(config.ToJson());
  const char* kind = head_bias ? "ForTokenClassification" : "ForSequenceClassification";
  json["architectures"] = {absl::StrCat(config.ScalarFamilyName(), kind)};
  json["num_labels"] = 1;
  json["id2label"] = {{"0", "LABEL_0"}};
  json["label2id"] = {{"LABEL_0", 0}};
  if (json["pad_token_id"].is_null() && !config.eos_token_ids.empty()) {
    // Without one transformers refuses batches of several sequences.
    json["pad_token_id"] = config.eos_token_ids.front();
  }
  return json.dump(2) + "\n";
}

}  // namespace

absl::StatusOr<std::unique_ptr<ScalarModel>> LoadScalarModel(const std::string& dir,
                                                             torch::Dtype dtype,
                                                             torch::Device device, HeadWanted head,
                                                             Communicator* tensor_group) {
  BATON_ASSIGN_OR_RETURN(const ModelConfig config, LoadModelConfig(dir));
  BATON_ASSIGN_OR_RETURN(const std::string config_json, ReadConfigJson(dir));
  BATON_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListTensors(dir));
  const auto has = [&](const char* name) {
    return std::binary_search(names.begin(), names.end(), name);
  };
  const std::string architecture = ArchitectureOf(config_json);
  const bool zero_head = head == HeadWanted::kZeroIfMissing && !has(kWeight) &&
                         !absl::StrContains(architecture, "Classification");
  if (!has(kWeight) && !zero_head) return NoHead(dir, architecture);
  BATON_ASSIGN_OR_RETURN(auto model,
                         ScalarModel::Create(config, dtype, device, has(kBias), tensor_group));
  std::vector<TensorPart> wanted = model->parts();
  if (zero_head) {
    wanted.erase(std::remove_if(wanted.begin(), wanted.end(),
                                [](const TensorPart& part) { return part.shard.name == kWeight; }),
                 wanted.end());
  }
  BATON_RETURN_IF_ERROR(LoadWeightParts(dir, PartsInFiles(config, wanted)));
  return model;
}

absl::Status SaveScalarModel(const ScalarModel& model, const std::string& dir,
                             const SaveOptions& options) {
  BATON_ASSIGN_OR_RETURN(const NamedTensors whole, model.WholeParameters());
  if (model.tensor_group() != nullptr && model.tensor_group()->rank() != 0) {
    return absl::OkStatus();
  }
  return SaveWholeScalar(model, whole, dir, options);
}

absl::Status SaveWholeScalar(const ScalarModel& model, const NamedTensors& whole,
                             const std::string& dir, const SaveOptions& options) {
  BATON_ASSIGN_OR_RETURN(const ModelConfig config,
                         ConfigToSave(model.config(), model.dtype(), options));
  return SaveDirectory(whole, config, ConfigJson(config, model.has_head_bias()), dir, options);
}

}  // namespace baton::engine
