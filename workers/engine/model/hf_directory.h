// Hugging Face model directories, as `from_pretrained` reads and `save_pretrained` writes them.
//
//   config.json                       required
//   model.safetensors                 or model.safetensors.index.json with its shards
//   tokenizer.json, …                 copied by SaveModel when a source is named
//   generation_config.json            copied, or written from the config's token ids
#ifndef BATON_WORKERS_ENGINE_MODEL_HF_DIRECTORY_H_
#define BATON_WORKERS_ENGINE_MODEL_HF_DIRECTORY_H_

#include <torch/torch.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "relay/weights/safetensors_reader.h"
#include "sdk/common/schema/model_config.h"
#include "workers/engine/model/model.h"
#include "workers/engine/model/weights_io.h"

namespace baton::engine {

/// The configuration of config.json. The weights decide with it whether the head is tied: as in
/// transformers (5.24), a head in the files whose values differ from the embedding's is not tied,
/// whatever config.json says. NotFound when the directory or config.json is missing; without
/// weights, config.json counts.
absl::StatusOr<ModelConfig> LoadModelConfig(const std::string& dir);

/// What a user should know of how LoadModelConfig made `config` of the files in `dir`, one sentence
/// each: a head that is not tied although config.json says so, keys that contradict each other.
std::vector<std::string> ConfigWarnings(const ModelConfig& config, const std::string& dir);

/// The model with its weights (F32, F16 or BF16 on disk), converted to `dtype` on `device`. A tied
/// model may or may not carry lm_head.weight, which is then equal to the embedding. Errors name the
/// file and the tensor; InvalidArgument, too: a weight that is NaN or infinite, or is so in
/// `dtype`. With a tensor group (model.h) a rank reads its own slices.
absl::StatusOr<std::unique_ptr<CausalLM>> LoadModel(const std::string& dir, torch::Dtype dtype,
                                                    torch::Device device,
                                                    Communicator* tensor_group = nullptr);

/// Files that stand beside the weights, by name: the tokenizer's and generation_config.json.
using Companions = std::map<std::string, std::string>;

/// The companions that `dir` has. NotFound when there is no such directory.
absl::StatusOr<Companions> ReadCompanions(const std::string& dir);

struct SaveOptions {
  /// Type in the file; absent: the model's own dtype.
  std::optional<torch::Dtype> dtype;
  /// The config tells which type the model had that this one was trained from (ModelConfig).
  bool keeps_model_dtype = false;
  /// Written as they are. Without a generation_config.json, one is made from the model's config.
  Companions companions;
  /// Above it the weights are split into model-0000i-of-0000n.safetensors with an index.
  int64_t max_shard_bytes = int64_t{5} << 30;
};

/// Writes `dir` (which must not exist, or be empty) as a whole: a temporary directory beside it is
/// filled, fsynced and renamed, so a crash leaves either nothing or everything. AlreadyExists if
/// `dir` holds anything; ResourceExhausted if the disk is full; other I/O errors with the system's
/// reason. With a tensor group all its ranks call this; rank 0 writes.
[[nodiscard]] absl::Status SaveModel(const CausalLM& model, const std::string& dir,
                                     const SaveOptions& options = {});
/// The part of SaveModel that rank 0 does alone, `whole` being the model's WholeParameters: for
/// callers that have more to gather before the first byte is written, since writing may take longer
/// than others wait.
[[nodiscard]] absl::Status SaveWhole(const CausalLM& model, const NamedTensors& whole,
                                     const std::string& dir, const SaveOptions& options = {});

/// Writes the model in `from`, whatever its head, to `to`, as SaveModel does, its weights in the
/// type `dtype` (TorchDtypeFromName) and its config without a trace of another one.
[[nodiscard]] absl::Status ConvertModel(const std::string& from, absl::string_view dtype,
                                        const std::string& to);

// The parts of LoadModel and SaveModel, for models with other heads.

/// The config that a saved model has: `config` in the type of `options`, or else `own`.
absl::StatusOr<ModelConfig> ConfigToSave(ModelConfig config, torch::Dtype own,
                                         const SaveOptions& options);

/// config.json as text. NotFound when the directory or the file is missing.
absl::StatusOr<std::string> ReadConfigJson(const std::string& dir);

/// The files that hold the weights of `dir`. NotFound: there are none, or a shard is missing;
/// InvalidArgument: a file is damaged, or two files have the same tensor.
absl::StatusOr<std::vector<std::unique_ptr<relay::SafetensorsFile>>> OpenWeights(
    const std::string& dir);

/// Names of all tensors that the weights of `dir` hold, sorted.
absl::StatusOr<std::vector<std::string>> ListTensors(const std::string& dir);

/// The headers of all files with weights of `dir`, file by file. NotFound names a shard that is
/// missing; InvalidArgument: a file is damaged, or shorter than its header says.
absl::StatusOr<std::vector<relay::TensorEntry>> ReadTensorEntries(const std::string& dir);

/// Whether a tensor of this name is in files without need, since it is computed: `inv_freq`, which
/// old versions of transformers saved.
bool IsNeedlessTensor(absl::string_view name);

/// Fills `into` from the weights of `dir`, each of which must be there. A tensor that `into` has no
/// place for is InvalidArgument, but for a head that `into` goes without.
[[nodiscard]] absl::Status LoadWeights(const std::string& dir, const NamedTensors& into);
/// As above, for slices of tensors (of the files: file_tensors.h).
[[nodiscard]] absl::Status LoadWeightParts(const std::string& dir,
                                           const std::vector<TensorPart>& into);

/// SaveModel for any named tensors, the model's own or its files'. `config` tells their dtype on
/// disk (torch_dtype; not options.dtype) and the token ids of generation_config.json.
[[nodiscard]] absl::Status SaveDirectory(const NamedTensors& tensors, const ModelConfig& config,
                                         const std::string& config_json, const std::string& dir,
                                         const SaveOptions& options);

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_MODEL_HF_DIRECTORY_H_
