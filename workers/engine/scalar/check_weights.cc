#include "workers/engine/scalar/check_weights.h"

#include <torch/torch.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "sdk/common/base/status_macros.h"
#include "workers/engine/model/file_tensors.h"
#include "workers/engine/model/hf_directory.h"
#include "workers/engine/model/model.h"
#include "workers/engine/model/weights_io.h"

namespace baton::engine {
namespace {

constexpr char kHeadWeight[] = "score.weight";
constexpr char kLmHead[] = "lm_head.weight";

std::string BracketsOf(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

using ShapesByName = std::map<std::string, std::vector<int64_t>>;

// The tensors of the model that `config` describes.
absl::StatusOr<ShapesByName> WantedShapes(const ModelConfig& config, ScalarHead head) {
  // On this device tensors have shapes and no memory.
  BATON_ASSIGN_OR_RETURN(const auto model,
                         CausalLM::Create(config, torch::kFloat32, torch::Device(torch::kMeta)));
  ShapesByName wanted;
  for (const TensorPart& part : PartsInFiles(config, ModelParts(*model))) {
    if (part.shard.name == kLmHead && head != ScalarHead::kNone) continue;
    wanted[part.shard.name] = part.shard.shape;
  }
  if (head == ScalarHead::kRequired) wanted[kHeadWeight] = {1, config.hidden_size};
  return wanted;
}

bool MayBeThere(const std::string& name, ScalarHead head) {
  return name == kLmHead || IsNeedlessTensor(name) ||
         (head != ScalarHead::kNone && absl::StartsWith(name, "score."));
}

}  // namespace

absl::Status CheckWeights(const std::string& dir, ScalarHead head) {
  BATON_ASSIGN_OR_RETURN(const ModelConfig config, LoadModelConfig(dir));
  BATON_ASSIGN_OR_RETURN(const auto entries, ReadTensorEntries(dir));
  BATON_ASSIGN_OR_RETURN(const ShapesByName wanted, WantedShapes(config, head));
  std::set<std::string> found;
  for (const relay::TensorEntry& entry : entries) {
    const std::string where = absl::StrCat(dir, ": tensor ", entry.name);
    found.insert(entry.name);
    const auto want = wanted.find(entry.name);
    if (want == wanted.end()) {
      if (MayBeThere(entry.name, head)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(where, " has no place in the model that config.json describes"));
    }
    if (entry.shape != want->second) {
      return absl::InvalidArgumentError(absl::StrCat(where, " has shape ", BracketsOf(entry.shape),
                                                     ", and config.json makes it ",
                                                     BracketsOf(want->second)));
    }
    const auto dtype = ToTorchDtype(entry.dtype);
    if (!dtype.ok() || !torch::isFloatingType(*dtype)) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, " is ", relay::DTypeName(entry.dtype),
                       "; this engine reads weights of type F32, F16 and BF16"));
    }
  }
  for (const auto& [name, shape] : wanted) {
    if (found.count(name) > 0) continue;
    return absl::NotFoundError(absl::StrCat(dir, ": tensor ", name, " is missing"));
  }
  return absl::OkStatus();
}

}  // namespace baton::engine
