#include "sdk/placement_spec/model_files.h"

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace baton::placement {

absl::StatusOr<ModelConfig> ReadModelFile(const std::string& file) {
  std::ifstream in(file);
  if (!in) return absl::NotFoundError(absl::StrCat(file, " cannot be opened"));
  const nlohmann::json json = nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(file, " is not a JSON object"));
  }
  const auto number = [&](const char* key, int64_t otherwise) {
    const auto at = json.find(key);
    return at != json.end() && at->is_number_integer() ? at->get<int64_t>() : otherwise;
  };
  const auto flag = [&](const char* key) {
    const auto at = json.find(key);
    return at != json.end() && at->is_boolean() && at->get<bool>();
  };
  ModelConfig m;
  m.name = std::filesystem::absolute(file).parent_path().filename().string();
  m.hidden = number("hidden_size", 0);
  m.layers = number("num_hidden_layers", 0);
  m.heads = number("num_attention_heads", 0);
  m.kv_heads = number("num_key_value_heads", m.heads);
  m.head_size = number("head_dim", 0);
  m.intermediate = number("intermediate_size", 0);
  m.vocabulary = number("vocab_size", 0);
  m.tied = flag("tie_word_embeddings");
  const auto type = json.find("model_type");
  m.qkv_bias = (type != json.end() && *type == "qwen2") || flag("attention_bias");
  const std::string fault = Fault(m);
  if (fault.empty()) return m;
  return absl::InvalidArgumentError(
      absl::StrCat(file, ": ", fault, "; it must be a decoder's config.json"));
}

ModelConfig ModelOfInit(const v1::ModelInitSpec& init) {
  ModelConfig m;
  m.name = "random weights";
  m.hidden = init.has_hidden_size() ? init.hidden_size() : 128;
  m.intermediate =
      init.has_intermediate_size() ? init.intermediate_size() : (4 * m.hidden + 7) / 8 * 8;
  m.layers = init.has_num_hidden_layers() ? init.num_hidden_layers() : 2;
  m.heads = init.has_num_attention_heads() ? init.num_attention_heads() : 4;
  m.kv_heads = init.has_num_key_value_heads() ? init.num_key_value_heads() : m.heads;
  m.vocabulary = 2;  // <pad> and <eos>
  for (const char c : init.characters()) {
    m.vocabulary += (static_cast<unsigned char>(c) & 0xc0) != 0x80 ? 1 : 0;
  }
  m.tied = !init.has_tie_word_embeddings() || init.tie_word_embeddings();
  return m;
}

}  // namespace baton::placement
