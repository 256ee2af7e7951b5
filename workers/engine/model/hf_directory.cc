#include "workers/engine/model/hf_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "relay/weights/file_io.h"
#include "relay/weights/safetensors_reader.h"
#include "sdk/common/base/gguf_file.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/schema/hub_name.h"
#include "workers/engine/model/exceptions.h"
#include "workers/engine/model/file_tensors.h"
#include "workers/engine/model/weights_io.h"
#include "workers/tokenizer/tokens/generation_config.h"

namespace baton::engine {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using relay::SafetensorsFile;

constexpr char kWeightsFile[] = "model.safetensors";
constexpr char kIndexFile[] = "model.safetensors.index.json";
constexpr char kHead[] = "lm_head.weight";
constexpr char kEmbedding[] = "model.embed_tokens.weight";

/// Copied from the source directory when they are there. transformers 5 keeps the templates of a
/// model that has several in a folder.
constexpr char kGenerationFile[] = "generation_config.json";
constexpr char kTemplateFolder[] = "additional_chat_templates/";
constexpr const char* kCompanions[] = {
    kGenerationFile,
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.json",
    "merges.txt",
    "added_tokens.json",
    "chat_template.jinja",
    "tokenizer.model",
    "additional_chat_templates/default.jinja",
    "additional_chat_templates/rag.jinja",
    "additional_chat_templates/tool_use.jinja",
};

std::string Join(const std::string& dir, absl::string_view file) {
  return absl::StrCat(dir, absl::EndsWith(dir, "/") ? "" : "/", file);
}

bool Exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

absl::Status CheckDirectory(const std::string& dir) {
  std::error_code error;
  if (fs::is_directory(dir, error)) return absl::OkStatus();
  std::string hint = GgufHint(dir);
  if (hint.empty()) hint = HubNameHint(dir);
  return absl::NotFoundError(absl::StrCat(
      "model directory ", dir, Exists(dir) ? " is not a directory" : " does not exist", "; ",
      hint.empty() ? "give a Hugging Face directory with config.json and model.safetensors"
                   : hint));
}

absl::Status NoWeights(const std::string& dir) {
  return absl::NotFoundError(
      absl::StrCat(dir, " has neither ", kWeightsFile, " nor ", kIndexFile,
                   "; convert other formats with transformers' save_pretrained"));
}

/// The file that holds each tensor, from the index. Only plain names inside the directory are
/// taken.
absl::StatusOr<std::map<std::string, std::vector<std::string>>> ReadIndex(const std::string& path) {
  BATON_ASSIGN_OR_RETURN(const std::string text, relay::ReadFile(path));
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const bool has_map =
      json.is_object() && json.contains("weight_map") && json["weight_map"].is_object();
  if (!has_map) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": has no object \"weight_map\""));
  }
  std::map<std::string, std::vector<std::string>> tensors_of_file;
  for (const auto& [tensor, file] : json["weight_map"].items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (name.empty() || absl::StrContains(name, "/") || name == "." || name == "..") {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": weight_map of ", tensor, " is not the name of a file beside it"));
    }
    tensors_of_file[name].push_back(tensor);
  }
  return tensors_of_file;
}

/// Parts to fill, by the name of the tensor that they are of.
using WantedParts = std::map<std::string, std::vector<TensorPart>>;

/// A tensor that the model has no place for means that its config does not tell the truth, unless
/// it is one that files carry without need.
absl::Status CheckKnown(const std::string& name, const WantedParts& known) {
  const bool headless = known.count(kHead) == 0;  // or tied to the embedding
  if (known.count(name) > 0 || IsNeedlessTensor(name) || (headless && name == kHead)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("tensor ", name, " has no place in the model that config.json describes"));
}

/// A model with such a weight draws nothing but errors, long after it was loaded.
absl::Status CheckFinite(const std::vector<TensorPart>& parts) {
  try {
    for (const TensorPart& part : parts) {
      if (torch::isfinite(part.tensor.detach()).all().item<bool>()) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor ", part.shard.name, " has a value that is NaN or infinite as ",
          c10::toString(part.tensor.scalar_type()),
          "; take the model as it was before, or another type than float16 if it is that"));
    }
    return absl::OkStatus();
  } catch (const std::exception& e) {
    return FromException(e);
  }
}

/// Loads from one file those of `names` that the model has. Removes them from `wanted`.
absl::Status LoadFile(const std::string& path, const std::vector<std::string>* names,
                      WantedParts& wanted) {
  BATON_ASSIGN_OR_RETURN(const std::unique_ptr<SafetensorsFile> file, SafetensorsFile::Open(path));
  std::vector<TensorPart> into;
  const auto add = [&into](const std::vector<TensorPart>& parts) {
    into.insert(into.end(), parts.begin(), parts.end());
  };
  if (names != nullptr) {
    for (const std::string& name : *names) {
      if (const auto it = wanted.find(name); it != wanted.end()) add(it->second);
    }
  } else {
    for (const relay::TensorEntry& entry : file->view().entries()) {
      BATON_RETURN_IF_ERROR(Annotate(CheckKnown(entry.name, wanted), path));
    }
    for (const auto& [name, parts] : wanted) add(parts);
  }
  if (absl::Status status = LoadParts(file->view(), into, /*ignore_extra=*/true); !status.ok()) {
    return Annotate(status, path);
  }
  BATON_RETURN_IF_ERROR(Annotate(CheckFinite(into), path));
  for (const TensorPart& part : into) wanted.erase(part.shard.name);
  return absl::OkStatus();
}

absl::Status LoadSharded(const std::string& dir, WantedParts wanted) {
  const std::string index = Join(dir, kIndexFile);
  const WantedParts wanted_by_all = wanted;
  BATON_RETURN_IF_ERROR(OpenWeights(dir).status());
  BATON_ASSIGN_OR_RETURN(const auto tensors_of_file, ReadIndex(index));
  for (const auto& [file, names] : tensors_of_file) {
    for (const std::string& name : names) {
      BATON_RETURN_IF_ERROR(Annotate(CheckKnown(name, wanted_by_all), index));
    }
  }
  for (const auto& [file, names] : tensors_of_file) {
    BATON_RETURN_IF_ERROR(LoadFile(Join(dir, file), &names, wanted));
  }
  if (wanted.empty()) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat(index, ": tensor ", wanted.begin()->first, " is in no shard"));
}

/// Splits the parameters in order so that no file is above the limit (unless one tensor is).
std::vector<NamedTensors> Shards(const NamedTensors& tensors, int64_t element_bytes,
                                 int64_t limit) {
  std::vector<NamedTensors> shards(1);
  int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) {
    const int64_t size = tensor.numel() * element_bytes;
    if (!shards.back().empty() && bytes + size > limit) {
      shards.emplace_back();
      bytes = 0;
    }
    shards.back().emplace_back(name, tensor);
    bytes += size;
  }
  return shards;
}

absl::Status WriteWeights(const NamedTensors& tensors, const std::string& dir, torch::Dtype dtype,
                          int64_t max_shard_bytes) {
  const int64_t element_bytes = static_cast<int64_t>(c10::elementSize(dtype));
  const std::vector<NamedTensors> shards = Shards(tensors, element_bytes, max_shard_bytes);
  Json weight_map = Json::object();
  int64_t total_bytes = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string file = shards.size() == 1 ? kWeightsFile
                                                : absl::StrFormat("model-%05d-of-%05d.safetensors",
                                                                  i + 1, shards.size());
    BATON_ASSIGN_OR_RETURN(const WeightsImage image, WeightsImage::Create(shards[i], dtype));
    BATON_RETURN_IF_ERROR(image.WriteFile(Join(dir, file)));
    for (const auto& [name, tensor] : shards[i]) {
      weight_map[name] = file;
      total_bytes += tensor.numel() * element_bytes;
    }
  }
  if (shards.size() == 1) return absl::OkStatus();
  const Json index = {{"metadata", {{"total_size", total_bytes}}}, {"weight_map", weight_map}};
  return relay::WriteFileAtomically(Join(dir, kIndexFile), index.dump(2) + "\n");
}

absl::Status WriteGenerationConfig(const ModelConfig& config, const std::string& dir) {
  tokenizer::GenerationConfig generation;
  generation.bos_token_id = config.bos_token_id;
  generation.pad_token_id = config.pad_token_id;
  generation.eos_token_ids = {config.eos_token_ids.begin(), config.eos_token_ids.end()};
  return generation.Save(dir);
}

/// Whether the weights of `dir` have a head that is not the embedding. False for files that cannot
/// be read: the loader of the weights reports those.
bool HasOwnHead(const std::string& dir) {
  const auto files = OpenWeights(dir);
  if (!files.ok()) return false;
  const auto find = [&files](const char* name) {
    torch::Tensor found;
    for (const auto& file : *files) {
      const relay::TensorEntry* entry = file->view().Find(name);
      if (entry == nullptr) continue;
      if (auto tensor = BorrowTensor(file->view(), *entry); tensor.ok()) found = *tensor;
    }
    return found;
  };
  torch::Tensor head = find(kHead), embedding = find(kEmbedding);
  if (!head.defined() || !embedding.defined()) return false;
  if (head.scalar_type() != embedding.scalar_type()) {
    head = head.to(torch::kFloat32);
    embedding = embedding.to(torch::kFloat32);
  }
  return !torch::equal(head, embedding);
}

absl::Status WriteCompanions(const ModelConfig& config, const std::string& dir,
                             const Companions& companions) {
  for (const auto& [file, content] : companions) {
    if (absl::StartsWith(file, kTemplateFolder)) {
      std::error_code error;
      fs::create_directory(Join(dir, kTemplateFolder), error);
      if (error) {
        return absl::UnavailableError(
            absl::StrCat("cannot make ", Join(dir, kTemplateFolder), ": ", error.message()));
      }
    }
    BATON_RETURN_IF_ERROR(relay::WriteFileAtomically(Join(dir, file), content));
  }
  return companions.count(kGenerationFile) > 0 ? absl::OkStatus()
                                               : WriteGenerationConfig(config, dir);
}

absl::Status WriteDirectory(const NamedTensors& tensors, const ModelConfig& config,
                            const std::string& config_json, const std::string& dir,
                            const SaveOptions& options) {
  BATON_ASSIGN_OR_RETURN(const torch::Dtype dtype, TorchDtypeFromName(config.torch_dtype));
  BATON_RETURN_IF_ERROR(relay::WriteFileAtomically(Join(dir, "config.json"), config_json));
  BATON_RETURN_IF_ERROR(WriteCompanions(config, dir, options.companions));
  return WriteWeights(TensorsInFiles(config, tensors), dir, dtype, options.max_shard_bytes);
}

/// Moves the finished `temporary` to `dir` (which is absent or an empty directory).
absl::Status Publish(const std::string& temporary, const std::string& dir) {
  BATON_RETURN_IF_ERROR(relay::SyncDirectory(temporary));
  if (rename(temporary.c_str(), dir.c_str()) != 0) {
    const int error = errno;
    if (error == ENOTEMPTY || error == EEXIST) {
      return absl::AlreadyExistsError(absl::StrCat(dir, " is not empty; choose another directory"));
    }
    return absl::ErrnoToStatus(error, absl::StrCat("cannot rename ", temporary, " to ", dir));
  }
  const std::string parent = fs::path(dir).parent_path().string();
  return relay::SyncDirectory(parent.empty() ? "." : parent);
}

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<SafetensorsFile>>> OpenWeights(const std::string& dir) {
  std::vector<std::string> names = {kWeightsFile};
  if (!Exists(Join(dir, kWeightsFile))) {
    if (!Exists(Join(dir, kIndexFile))) return NoWeights(dir);
    BATON_ASSIGN_OR_RETURN(const auto tensors_of_file, ReadIndex(Join(dir, kIndexFile)));
    names.clear();
    for (const auto& [file, tensors] : tensors_of_file) names.push_back(file);
  }
  std::vector<std::unique_ptr<SafetensorsFile>> files;
  for (const std::string& name : names) {
    BATON_ASSIGN_OR_RETURN(files.emplace_back(), SafetensorsFile::Open(Join(dir, name)));
  }
  // transformers would take the last one, whatever the index says.
  std::map<std::string, std::string> file_of;
  for (size_t i = 0; i < files.size(); ++i) {
    for (const relay::TensorEntry& entry : files[i]->view().entries()) {
      const auto [first, added] = file_of.emplace(entry.name, names[i]);
      if (added) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(dir, ": tensor ", entry.name, " is in ", first->second, " and in ", names[i],
                       "; remove the files that are of another save"));
    }
  }
  return files;
}

bool IsNeedlessTensor(absl::string_view name) {
  return absl::EndsWith(name, ".rotary_emb.inv_freq");
}

absl::StatusOr<std::string> ReadConfigJson(const std::string& dir) {
  BATON_RETURN_IF_ERROR(CheckDirectory(dir));
  const std::string file = Join(dir, "config.json");
  const std::string hint = Exists(file) ? "" : GgufHint(dir);
  if (!hint.empty())
    return absl::NotFoundError(absl::StrCat("no config.json in ", dir, "; ", hint));
  return relay::ReadFile(file);
}

absl::StatusOr<ModelConfig> LoadModelConfig(const std::string& dir) {
  BATON_ASSIGN_OR_RETURN(const std::string text, ReadConfigJson(dir));
  absl::StatusOr<ModelConfig> config = ModelConfig::FromJson(text);
  if (!config.ok()) return Annotate(config.status(), Join(dir, "config.json"));
  if (config->tie_word_embeddings && HasOwnHead(dir)) config->tie_word_embeddings = false;
  return config;
}

std::vector<std::string> ConfigWarnings(const ModelConfig& config, const std::string& dir) {
  const auto text = ReadConfigJson(dir);
  if (!text.ok()) return {};
  std::vector<std::string> warnings = ModelConfig::Warnings(*text);
  const auto said = ModelConfig::FromJson(*text);
  if (said.ok() && said->tie_word_embeddings && !config.tie_word_embeddings) {
    warnings.push_back(
        "config.json says tie_word_embeddings, but the files have another lm_head.weight than the "
        "embedding; the files' head is used, trained and saved as a tensor of its own, as in "
        "transformers 5. If they should be one, remove lm_head.weight from the files");
  }
  return warnings;
}

absl::StatusOr<Companions> ReadCompanions(const std::string& dir) {
  BATON_RETURN_IF_ERROR(CheckDirectory(dir));
  Companions companions;
  for (const char* file : kCompanions) {
    if (!Exists(Join(dir, file))) continue;
    BATON_ASSIGN_OR_RETURN(companions[file], relay::ReadFile(Join(dir, file)));
  }
  return companions;
}

absl::StatusOr<std::vector<std::string>> ListTensors(const std::string& dir) {
  std::vector<std::string> names;
  const std::string single = Join(dir, kWeightsFile);
  if (Exists(single)) {
    BATON_ASSIGN_OR_RETURN(const auto file, SafetensorsFile::Open(single));
    for (const relay::TensorEntry& entry : file->view().entries()) names.push_back(entry.name);
  } else if (Exists(Join(dir, kIndexFile))) {
    BATON_ASSIGN_OR_RETURN(const auto tensors_of_file, ReadIndex(Join(dir, kIndexFile)));
    for (const auto& [file, tensors] : tensors_of_file) {
      names.insert(names.end(), tensors.begin(), tensors.end());
    }
  } else {
    return NoWeights(dir);
  }
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<std::vector<relay::TensorEntry>> ReadTensorEntries(const std::string& dir) {
  BATON_ASSIGN_OR_RETURN(const auto files, OpenWeights(dir));
  std::vector<relay::TensorEntry> entries;
  for (const auto& file : files) {
    const auto& own = file->view().entries();
    entries.insert(entries.end(), own.begin(), own.end());
  }
  return entries;
}

absl::Status LoadWeights(const std::string& dir, const NamedTensors& into) {
  return LoadWeightParts(dir, WholeParts(into));
}

absl::Status LoadWeightParts(const std::string& dir, const std::vector<TensorPart>& into) {
  WantedParts wanted;
  for (const TensorPart& part : into) wanted[part.shard.name].push_back(part);
  const std::string single = Join(dir, kWeightsFile);
  if (Exists(single)) return LoadFile(single, nullptr, wanted);
  if (Exists(Join(dir, kIndexFile))) return LoadSharded(dir, std::move(wanted));
  return NoWeights(dir);
}

absl::StatusOr<std::unique_ptr<CausalLM>> LoadModel(const std::string& dir, torch::Dtype dtype,
                                                    torch::Device device,
                                                    Communicator* tensor_group) {
  BATON_ASSIGN_OR_RETURN(const ModelConfig config, LoadModelConfig(dir));
  BATON_ASSIGN_OR_RETURN(std::unique_ptr<CausalLM> model,
                         CausalLM::Create(config, dtype, device, tensor_group));
  BATON_RETURN_IF_ERROR(LoadWeightParts(dir, PartsInFiles(config, ModelParts(*model))));
  return model;
}

absl::Status SaveModel(const CausalLM& model, const std::string& dir, const SaveOptions& options) {
  BATON_ASSIGN_OR_RETURN(const NamedTensors whole, WholeParameters(model));
  if (model.tensor_group() != nullptr && model.tensor_group()->rank() != 0) {
    return absl::OkStatus();
  }
  return SaveWhole(model, whole, dir, options);
}

absl::Status SaveWhole(const CausalLM& model, const NamedTensors& whole, const std::string& dir,
                       const SaveOptions& options) {
  BATON_ASSIGN_OR_RETURN(const ModelConfig config,
                         ConfigToSave(model.config(), model.dtype(), options));
  return SaveDirectory(whole, config, config.ToJson(), dir, options);
}

absl::StatusOr<ModelConfig> ConfigToSave(ModelConfig config, torch::Dtype own,
                                         const SaveOptions& options) {
  const std::string original = config.original_dtype();
  BATON_ASSIGN_OR_RETURN(config.torch_dtype, TorchDtypeName(options.dtype.value_or(own)));
  config.model_dtype =
      options.keeps_model_dtype && original != config.torch_dtype ? original : std::string();
  return config;
}

absl::Status ConvertModel(const std::string& from, absl::string_view dtype, const std::string& to) {
  BATON_ASSIGN_OR_RETURN(ModelConfig config, LoadModelConfig(from));
  BATON_ASSIGN_OR_RETURN(const std::string text, ReadConfigJson(from));
  Json json = Json::parse(text);  // LoadModelConfig could
  // transformers 5 writes `dtype`, earlier ones `torch_dtype`; each reads both.
  if (!json.contains("dtype")) json["torch_dtype"] = std::string(dtype);
  for (const char* key : {"dtype", "torch_dtype"}) {
    if (json.contains(key)) json[key] = std::string(dtype);
  }
  json.erase(kModelDtypeKey);
  if (json.contains("tie_word_embeddings"))
    json["tie_word_embeddings"] = config.tie_word_embeddings;
  config.torch_dtype = std::string(dtype);
  SaveOptions options;
  BATON_ASSIGN_OR_RETURN(options.companions, ReadCompanions(from));
  BATON_ASSIGN_OR_RETURN(const auto files, OpenWeights(from));
  NamedTensors tensors;
  for (const auto& file : files) {
    for (const relay::TensorEntry& entry : file->view().entries()) {
      BATON_ASSIGN_OR_RETURN(torch::Tensor tensor, BorrowTensor(file->view(), entry));
      tensors.emplace_back(entry.name, std::move(tensor));
    }
  }
  return SaveDirectory(tensors, config, json.dump(2) + "\n", to, options);
}

absl::Status SaveDirectory(const NamedTensors& tensors, const ModelConfig& config,
                           const std::string& config_json, const std::string& dir,
                           const SaveOptions& options) {
  std::string target = dir;
  while (target.size() > 1 && target.back() == '/') target.pop_back();
  std::error_code error;
  if (fs::exists(target, error) &&
      !(fs::is_directory(target, error) && fs::is_empty(target, error))) {
    return absl::AlreadyExistsError(
        absl::StrCat(target, " is not empty; choose another directory"));
  }
  fs::create_directories(fs::path(target).parent_path(), error);
  std::string temporary = target + ".tmp-XXXXXX";
  if (mkdtemp(temporary.data()) == nullptr) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot create a directory beside ", target));
  }
  chmod(temporary.c_str(), 0755);
  absl::Status status = WriteDirectory(tensors, config, config_json, temporary, options);
  if (status.ok()) status = Publish(temporary, target);
  if (!status.ok()) fs::remove_all(temporary, error);
  return status;
}

}  // namespace baton::engine
