#include "sdk/common/schema/model_config.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/schema/json_fields.h"

namespace baton {
namespace {

constexpr int64_t kMaxDimension = int64_t{1} << 24;

/// Reads keys of one object and remembers the first problem.
class Reader {
 public:
  Reader(const Json& json, std::string prefix) : json_(json), prefix_(std::move(prefix)) {}

  /// Null when absent or JSON null.
  const Json* Find(const char* key) const {
    const auto it = json_.find(key);
    return it == json_.end() || it->is_null() ? nullptr : &*it;
  }

  /// True for a null, too.
  bool Has(const char* key) const { return json_.contains(key); }

  void Int(const char* key, int64_t& out, bool required = false) {
    const Json* value = Find(key);
    if (value == nullptr) {
      if (required) Fail(key, "is missing");
    } else if (!value->is_number_integer()) {
      Fail(key, "must be an integer");
    } else if (value->is_number_unsigned() &&
               value->get<uint64_t>() >
                   static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      Fail(key, "is too large");
    } else {
      out = value->get<int64_t>();
    }
  }
  void Number(const char* key, double& out, bool required = false) {
    const Json* value = Find(key);
    if (value == nullptr) {
      if (required) Fail(key, "is missing");
      return;
    }
    if (!value->is_number()) return Fail(key, "must be a number");
    out = value->get<double>();
  }
  void Bool(const char* key, bool& out) {
    const Json* value = Find(key);
    if (value == nullptr) return;
    if (!value->is_boolean()) return Fail(key, "must be true or false");
    out = value->get<bool>();
  }
  void String(const char* key, std::string& out) {
    const Json* value = Find(key);
    if (value == nullptr) return;
    if (!value->is_string()) return Fail(key, "must be a string");
    out = value->get<std::string>();
  }
  void OptionalInt(const char* key, std::optional<int64_t>& out) {
    if (Find(key) == nullptr) return;
    int64_t value = 0;
    Int(key, value);
    out = value;
  }
  void IntOrList(const char* key, std::vector<int64_t>& out) {
    const Json* value = Find(key);
    if (value == nullptr) return;
    for (const Json& item : value->is_array() ? *value : Json::array({*value})) {
      if (!item.is_number_integer()) return Fail(key, "must be an integer or a list of integers");
      if (item.is_number_unsigned() && item.get<uint64_t>() > INT64_MAX) {
        return Fail(key, "is too large");
      }
      out.push_back(item.get<int64_t>());
    }
  }

  void Fail(absl::string_view key, absl::string_view problem) {
    Note(absl::InvalidArgumentError(absl::StrCat(prefix_, key, ": ", problem)));
  }
  void Note(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  const absl::Status& status() const { return status_; }

 private:
  const Json& json_;
  std::string prefix_;
  absl::Status status_;
};

struct FamilyNames {
  ModelConfig::Family family;
  const char* model_type;
  const char* name;
};
constexpr FamilyNames kFamilies[] = {{ModelConfig::Family::kLlama, "llama", "Llama"},
                                     {ModelConfig::Family::kMistral, "mistral", "Mistral"},
                                     {ModelConfig::Family::kQwen2, "qwen2", "Qwen2"},
                                     {ModelConfig::Family::kQwen3, "qwen3", "Qwen3"}};

const FamilyNames& NamesOf(ModelConfig::Family family) {
  return *std::find_if(std::begin(kFamilies), std::end(kFamilies),
                       [&](const FamilyNames& names) { return names.family == family; });
}

absl::Status ReadFamily(Reader& reader, ModelConfig& config) {
  std::string model_type;
  reader.String("model_type", model_type);
  BATON_RETURN_IF_ERROR(reader.status());
  std::vector<absl::string_view> known;
  for (const FamilyNames& names : kFamilies) {
    known.push_back(names.model_type);
    if (model_type != names.model_type) continue;
    config.family = names.family;
    return absl::OkStatus();
  }
  return absl::UnimplementedError(absl::StrCat("model_type: \"", model_type,
                                               "\" is not supported; supported are ",
                                               absl::StrJoin(known, ", ")));
}

/// rope_scaling (transformers 4) or rope_parameters (transformers 5), which also holds rope_theta.
absl::Status ReadRope(Reader& reader, ModelConfig& config) {
  reader.Number("rope_theta", config.rope_theta);
  const char* key = reader.Find("rope_parameters") != nullptr ? "rope_parameters" : "rope_scaling";
  const Json* json = reader.Find(key);
  if (json == nullptr) return absl::OkStatus();
  if (!json->is_object())
    return absl::InvalidArgumentError(absl::StrCat(key, ": must be an object"));
  Reader rope(*json, absl::StrCat(key, "."));
  RopeScaling& scaling = config.rope_scaling;
  std::string type = "default";
  rope.String("type", type);
  rope.String("rope_type", type);
  rope.Number("rope_theta", config.rope_theta);
  if (type == "llama3") {
    scaling.type = RopeScaling::Type::kLlama3;
    rope.Number("low_freq_factor", scaling.low_freq_factor, true);
    rope.Number("high_freq_factor", scaling.high_freq_factor, true);
    rope.Int("original_max_position_embeddings", scaling.original_max_position_embeddings, true);
  } else if (type == "linear") {
    scaling.type = RopeScaling::Type::kLinear;
  } else if (type != "default") {
    return absl::UnimplementedError(
        absl::StrCat(key, ".rope_type: \"", type, "\" is not supported; use llama3 or linear"));
  }
  if (scaling.type != RopeScaling::Type::kNone) rope.Number("factor", scaling.factor, true);
  return rope.status();
}

/// Features that would change the result and that the engine does not have.
absl::Status RefuseUnsupported(Reader& reader, const ModelConfig& config) {
  std::string activation = "silu";
  reader.String("hidden_act", activation);
  if (activation != "silu" && activation != "swish") {
    return absl::UnimplementedError(
        absl::StrCat("hidden_act: \"", activation, "\" is not supported; only silu is"));
  }
  bool sliding = false;
  reader.Bool("use_sliding_window", sliding);
  // In Mistral all layers have the window of `sliding_window`, so they need no list.
  const bool mistral = config.family == ModelConfig::Family::kMistral;
  if (const Json* types = reader.Find("layer_types"); types != nullptr && types->is_array()) {
    for (const Json& type : *types) {
      sliding = sliding || (type != "full_attention" && !(mistral && type == "sliding_attention"));
    }
  }
  if (sliding) {
    return absl::UnimplementedError(
        "use_sliding_window: layers with and without a sliding window are not supported");
  }
  if (reader.Find("quantization_config") != nullptr) {
    return absl::UnimplementedError(
        "quantization_config: quantized weights are not supported; export the model in float");
  }
  return reader.status();
}

void ReadSizes(Reader& reader, ModelConfig& config) {
  reader.Int("vocab_size", config.vocab_size, true);
  reader.Int("hidden_size", config.hidden_size, true);
  reader.Int("intermediate_size", config.intermediate_size, true);
  reader.Int("num_hidden_layers", config.num_hidden_layers, true);
  reader.Int("num_attention_heads", config.num_attention_heads, true);
  config.num_key_value_heads = config.num_attention_heads;
  reader.Int("num_key_value_heads", config.num_key_value_heads);
  if (config.num_attention_heads > 0) {
    config.head_dim = config.hidden_size / config.num_attention_heads;
  }
  reader.Int("head_dim", config.head_dim);
  reader.Int("max_position_embeddings", config.max_position_embeddings);
  reader.Number("rms_norm_eps", config.rms_norm_eps);
  reader.Bool("tie_word_embeddings", config.tie_word_embeddings);
}

/// Keys whose meaning or default depends on the family.
void ReadFamilyKeys(Reader& reader, ModelConfig& config) {
  switch (config.family) {
    case ModelConfig::Family::kQwen2:
      config.attention_bias = true;
      return;
    case ModelConfig::Family::kQwen3:
      if (reader.Find("head_dim") == nullptr) config.head_dim = 128;
      reader.Bool("attention_bias", config.attention_bias);
      config.attention_output_bias = config.attention_bias;
      return;
    case ModelConfig::Family::kMistral:
      config.sliding_window = 4096;
      if (reader.Has("sliding_window")) config.sliding_window.reset();
      reader.OptionalInt("sliding_window", config.sliding_window);
      return;
    case ModelConfig::Family::kLlama:
      reader.Bool("attention_bias", config.attention_bias);
      config.attention_output_bias = config.attention_bias;
      reader.Bool("mlp_bias", config.mlp_bias);
      return;
  }
}

absl::Status InRange(const char* key, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(key, ": ", value, " is not in [", low, ", ", high, "]"));
}

absl::Status CheckTokenId(const char* key, int64_t id, int64_t vocab_size) {
  return InRange(key, id, -1, vocab_size - 1);
}

absl::Status CheckSizes(const ModelConfig& c) {
  BATON_RETURN_IF_ERROR(InRange("vocab_size", c.vocab_size, 1, kMaxDimension));
  BATON_RETURN_IF_ERROR(InRange("hidden_size", c.hidden_size, 1, kMaxDimension));
  BATON_RETURN_IF_ERROR(InRange("intermediate_size", c.intermediate_size, 1, kMaxDimension));
  BATON_RETURN_IF_ERROR(InRange("num_hidden_layers", c.num_hidden_layers, 1, 1024));
  BATON_RETURN_IF_ERROR(InRange("num_attention_heads", c.num_attention_heads, 1, 65536));
  BATON_RETURN_IF_ERROR(
      InRange("num_key_value_heads", c.num_key_value_heads, 1, c.num_attention_heads));
  BATON_RETURN_IF_ERROR(InRange("head_dim", c.head_dim, 2, 65536));
  BATON_RETURN_IF_ERROR(
      InRange("max_position_embeddings", c.max_position_embeddings, 1, int64_t{1} << 31));
  if (c.num_attention_heads % c.num_key_value_heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat("num_key_value_heads: ", c.num_key_value_heads,
                                                   " does not divide num_attention_heads ",
                                                   c.num_attention_heads));
  }
  BATON_RETURN_IF_ERROR(InRange("num_attention_heads * head_dim",
                                c.num_attention_heads * c.head_dim, 1, kMaxDimension));
  if (c.head_dim % 2 != 0) {
    return absl::InvalidArgumentError(absl::StrCat("head_dim: ", c.head_dim, " is not even"));
  }
  return absl::OkStatus();
}

/// Checks that a config.json of its family can express the config.
absl::Status CheckFamily(const ModelConfig& c) {
  const bool same = c.attention_output_bias == c.attention_bias;
  bool fits = false;
  switch (c.family) {
    case ModelConfig::Family::kLlama:
      fits = same;
      break;
    case ModelConfig::Family::kQwen2:
      fits = c.attention_bias && !c.attention_output_bias && !c.mlp_bias;
      break;
    case ModelConfig::Family::kQwen3:
      fits = same && !c.mlp_bias;
      break;
    case ModelConfig::Family::kMistral:
      fits = same && !c.attention_bias && !c.mlp_bias;
      break;
  }
  if (!fits) {
    return absl::InvalidArgumentError(
        "biases: Llama and Qwen3 have them on all of q, k, v and o or on none; Qwen2 on q, k and v "
        "alone; Mistral on none; of the feed-forward layer only Llama may have them");
  }
  if (!c.sliding_window.has_value()) return absl::OkStatus();
  if (c.family != ModelConfig::Family::kMistral) {
    return absl::InvalidArgumentError("sliding_window: only Mistral has one here");
  }
  return InRange("sliding_window", *c.sliding_window, 1, int64_t{1} << 31);
}

absl::Status CheckNumbers(const ModelConfig& c) {
  // Written so that NaN fails too.
  if (!(c.rms_norm_eps >= 0 && c.rms_norm_eps < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("rms_norm_eps: ", c.rms_norm_eps, " is not in [0, 1)"));
  }
  if (!(c.rope_theta > 0 && c.rope_theta < 1e15)) {
    return absl::InvalidArgumentError(
        absl::StrCat("rope_theta: ", c.rope_theta, " is not positive"));
  }
  if (!(c.initializer_range >= 0 && c.initializer_range < 1e3)) {
    return absl::InvalidArgumentError(
        absl::StrCat("initializer_range: ", c.initializer_range, " is not in [0, 1000)"));
  }
  const RopeScaling& s = c.rope_scaling;
  if (!(s.factor > 0) || (s.type == RopeScaling::Type::kLlama3 &&
                          !(s.low_freq_factor > 0 && s.high_freq_factor > s.low_freq_factor &&
                            s.original_max_position_embeddings > 0))) {
    return absl::InvalidArgumentError(
        "rope_scaling: factor must be positive, and for llama3 0 < low_freq_factor < "
        "high_freq_factor and original_max_position_embeddings > 0");
  }
  for (const auto& [key, dtype] : {std::make_pair("torch_dtype", c.torch_dtype),
                                   std::make_pair(kModelDtypeKey, c.original_dtype())}) {
    if (dtype == "float32" || dtype == "float16" || dtype == "bfloat16" || dtype == "float64") {
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat(key, ": \"", dtype, "\" is not one of: float32, float16, bfloat16, float64"));
  }
  return absl::OkStatus();
}

}  // namespace

const char* ModelConfig::FamilyName() const { return NamesOf(family).name; }

int64_t ModelConfig::NumParameters() const {
  const int64_t q = num_attention_heads * head_dim, kv = num_key_value_heads * head_dim;
  int64_t layer =
      2 * hidden_size + hidden_size * (2 * q + 2 * kv) + 3 * hidden_size * intermediate_size;
  if (attention_bias) layer += q + 2 * kv;
  if (attention_output_bias) layer += hidden_size;
  if (mlp_bias) layer += 2 * intermediate_size + hidden_size;
  if (has_head_norms()) layer += 2 * head_dim;
  return vocab_size * hidden_size * (tie_word_embeddings ? 1 : 2) + hidden_size +
         num_hidden_layers * layer;
}

absl::Status ModelConfig::Validate() const {
  BATON_RETURN_IF_ERROR(CheckSizes(*this));
  BATON_RETURN_IF_ERROR(CheckNumbers(*this));
  BATON_RETURN_IF_ERROR(CheckFamily(*this));
  if (bos_token_id) BATON_RETURN_IF_ERROR(CheckTokenId("bos_token_id", *bos_token_id, vocab_size));
  if (pad_token_id) BATON_RETURN_IF_ERROR(CheckTokenId("pad_token_id", *pad_token_id, vocab_size));
  for (int64_t id : eos_token_ids) {
    BATON_RETURN_IF_ERROR(CheckTokenId("eos_token_id", id, vocab_size));
  }
  return absl::OkStatus();
}
absl::StatusOr<ModelConfig> ModelConfig::FromJson(absl::string_view text) {
  BATON_ASSIGN_OR_RETURN(const Json json, ParseJsonObject(text, "config.json"));
  Reader reader(json, "");
  ModelConfig config;
  BATON_RETURN_IF_ERROR(ReadFamily(reader, config));
  BATON_RETURN_IF_ERROR(RefuseUnsupported(reader, config));
  BATON_RETURN_IF_ERROR(ReadRope(reader, config));
  ReadSizes(reader, config);
  ReadFamilyKeys(reader, config);
  reader.Number("initializer_range", config.initializer_range);
  reader.OptionalInt("bos_token_id", config.bos_token_id);
  reader.OptionalInt("pad_token_id", config.pad_token_id);
  reader.IntOrList("eos_token_id", config.eos_token_ids);
  reader.String("dtype", config.torch_dtype);
  reader.String("torch_dtype", config.torch_dtype);
  reader.String(kModelDtypeKey, config.model_dtype);
  BATON_RETURN_IF_ERROR(reader.status());
  BATON_RETURN_IF_ERROR(config.Validate());
  return config;
}

absl::StatusOr<ModelConfig> ModelConfig::Sketch(absl::string_view text) {
  BATON_ASSIGN_OR_RETURN(const Json json, ParseJsonObject(text, "config.json"));
  Reader reader(json, "");  // what it complains of is left out
  ModelConfig config;
  config.max_position_embeddings = 0;
  ReadFamily(reader, config).IgnoreError();  // most others have the keys of Llama
  ReadSizes(reader, config);
  ReadFamilyKeys(reader, config);
  const Json* names = reader.Find("architectures");
  if (names != nullptr && names->is_array() && !names->empty() && names->front().is_string()) {
    config.architecture = names->front().get<std::string>();
  }
  reader.String("model_type", config.model_type);
  return config;
}

std::string ModelConfig::ToJson() const {
  Json json = {{"architectures", {absl::StrCat(FamilyName(), "ForCausalLM")}},
               {"model_type", NamesOf(family).model_type},
               {"vocab_size", vocab_size},
               {"hidden_size", hidden_size},
               {"intermediate_size", intermediate_size},
               {"num_hidden_layers", num_hidden_layers},
               {"num_attention_heads", num_attention_heads},
               {"num_key_value_heads", num_key_value_heads},
               {"head_dim", head_dim},
               {"hidden_act", "silu"},
               {"max_position_embeddings", max_position_embeddings},
               {"rms_norm_eps", rms_norm_eps},
               {"rope_theta", rope_theta},
               {"rope_scaling", nullptr},
               {"tie_word_embeddings", tie_word_embeddings},
               {"attention_dropout", 0.0},
               {"initializer_range", initializer_range},
               {"use_cache", true},
               {"bos_token_id", nullptr},
               {"eos_token_id", nullptr},
               {"torch_dtype", torch_dtype}};
  if (family == Family::kLlama) json["mlp_bias"] = mlp_bias;
  if (family == Family::kLlama || family == Family::kQwen3) json["attention_bias"] = attention_bias;
  if (family == Family::kQwen2 || family == Family::kQwen3) json["use_sliding_window"] = false;
  if (family == Family::kMistral) {
    json["sliding_window"] = sliding_window.has_value() ? Json(*sliding_window) : Json(nullptr);
  }
  if (rope_scaling.type == RopeScaling::Type::kLinear) {
    // Exactly these two keys: transformers before 4.43 refuses any other.
    json["rope_scaling"] = {{"type", "linear"}, {"factor", rope_scaling.factor}};
  } else if (rope_scaling.type == RopeScaling::Type::kLlama3) {
    json["rope_scaling"] = {
        {"rope_type", "llama3"},
        {"factor", rope_scaling.factor},
        {"low_freq_factor", rope_scaling.low_freq_factor},
        {"high_freq_factor", rope_scaling.high_freq_factor},
        {"original_max_position_embeddings", rope_scaling.original_max_position_embeddings}};
  }
  if (!model_dtype.empty()) json[kModelDtypeKey] = model_dtype;
  if (bos_token_id) json["bos_token_id"] = *bos_token_id;
  if (pad_token_id) json["pad_token_id"] = *pad_token_id;
  if (eos_token_ids.size() == 1) {
    json["eos_token_id"] = eos_token_ids[0];
  } else if (!eos_token_ids.empty()) {
    json["eos_token_id"] = eos_token_ids;
  }
  return json.dump(2) + "\n";
}

}  // namespace baton
