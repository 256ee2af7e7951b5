#include "sdk/common/schema/model_config.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/schema/config_reader.h"
#include "sdk/common/schema/json_fields.h"
#include "sdk/common/schema/model_families.h"

namespace baton {
namespace {

constexpr int64_t kMaxDimension = int64_t{1} << 24;

using Family = ModelFamily;

absl::Status ReadFamily(ConfigReader& reader, ModelConfig& config) {
  std::string model_type;
  reader.String("model_type", model_type);
  BATON_RETURN_IF_ERROR(reader.status());
  BATON_ASSIGN_OR_RETURN(config.family, FamilyOfModelType(model_type));
  return absl::OkStatus();
}

absl::Status ReadRopeOf(ConfigReader& reader, ModelConfig& config) {
  RopeContext context;
  context.max_position_embeddings = config.max_position_embeddings;
  config.rope.theta = TraitsOf(config.family).rope_theta;
  if (config.family == Family::kPhi3) context.original = 4096;  // Phi3Config's default
  BATON_RETURN_IF_ERROR(
      config.family == Family::kGemma3
          ? ReadRopeByLayerType(reader, context, config.rope, config.local_rope_theta)
          : ReadRope(reader, context, config.rope));
  if (config.rope.partial_rotary_factor != 1 && config.family != Family::kPhi3) {
    return absl::UnimplementedError(
        absl::StrCat("partial_rotary_factor: ", config.rope.partial_rotary_factor,
                     " is not supported for this family; only phi3 has heads that rotate in part"));
  }
  return absl::OkStatus();
}

/// Features that would change the result and that the engine does not have.
absl::Status RefuseUnsupported(ConfigReader& reader, const ModelConfig& config) {
  const bool gelu = config.activation() == ModelConfig::Activation::kGeluTanh;
  const char* key = config.family == Family::kGemma3 ? "hidden_activation" : "hidden_act";
  const std::string wanted = gelu ? "gelu_pytorch_tanh" : "silu";
  std::string activation = wanted;
  reader.String(key, activation);
  if (activation != wanted && (gelu || activation != "swish")) {
    return absl::UnimplementedError(
        absl::StrCat(key, ": \"", activation, "\" is not supported; only ", wanted, " is"));
  }
  if (reader.Find("quantization_config") != nullptr) {
    return absl::UnimplementedError(
        "quantization_config: quantized weights are not supported; export the model in float");
  }
  if (config.family != Family::kGemma3) return reader.status();
  for (const char* cap : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    if (reader.Find(cap) == nullptr) continue;
    return absl::UnimplementedError(absl::StrCat(cap, ": soft caps are not supported"));
  }
  bool bidirectional = false;
  reader.Bool("use_bidirectional_attention", bidirectional);
  if (!bidirectional) return reader.status();
  return absl::UnimplementedError(
      "use_bidirectional_attention: attention to later tokens is not supported");
}

void ReadSizes(ConfigReader& reader, ModelConfig& config) {
  const FamilyTraits& traits = TraitsOf(config.family);
  reader.Int("vocab_size", config.vocab_size, true);
  reader.Int("hidden_size", config.hidden_size, true);
  reader.Int("intermediate_size", config.intermediate_size, true);
  reader.Int("num_hidden_layers", config.num_hidden_layers, true);
  reader.Int("num_attention_heads", config.num_attention_heads, true);
  // Null means as many as attention heads, whatever the family has without the key.
  const bool all_heads = reader.Has("num_key_value_heads") || traits.num_key_value_heads == 0;
  config.num_key_value_heads = all_heads ? config.num_attention_heads : traits.num_key_value_heads;
  reader.Int("num_key_value_heads", config.num_key_value_heads);
  config.head_dim = traits.head_dim;
  if (traits.head_dim == 0 && config.num_attention_heads > 0) {
    config.head_dim = config.hidden_size / config.num_attention_heads;
  }
  reader.Int("head_dim", config.head_dim);
  reader.Int("max_position_embeddings", config.max_position_embeddings);
  config.rms_norm_eps = traits.rms_norm_eps;
  reader.Number("rms_norm_eps", config.rms_norm_eps);
  config.tie_word_embeddings = traits.tied;
  reader.Bool("tie_word_embeddings", config.tie_word_embeddings);
}

void ReadBiases(ConfigReader& reader, ModelConfig& config) {
  if (config.family == Family::kQwen2) {
    config.attention_bias = true;
  } else if (!IsOneOf(config.family, {Family::kMistral, Family::kPhi3})) {
    reader.Bool("attention_bias", config.attention_bias);
    config.attention_output_bias = config.attention_bias;
  }
  if (IsOneOf(config.family, {Family::kLlama, Family::kSmolLm3, Family::kGranite})) {
    reader.Bool("mlp_bias", config.mlp_bias);
  }
}

void ReadFactors(ConfigReader& reader, ModelConfig& config) {
  if (config.family == Family::kGemma3) {
    reader.Int("query_pre_attn_scalar", config.query_pre_attn_scalar);
  }
  if (config.family != Family::kGranite) return;
  reader.Number("embedding_multiplier", config.embedding_multiplier);
  reader.Number("residual_multiplier", config.residual_multiplier);
  reader.Number("attention_multiplier", config.attention_multiplier);
  reader.Number("logits_scaling", config.logits_scaling);
}

/// The first of `architectures`; empty if there is none.
std::string FirstArchitecture(const ConfigReader& reader) {
  const Json* names = reader.Find("architectures");
  const bool named =
      names != nullptr && names->is_array() && !names->empty() && names->front().is_string();
  return named ? names->front().get<std::string>() : std::string();
}

/// Keys whose meaning or default depends on the family.
void ReadFamilyKeys(ConfigReader& reader, ModelConfig& config) {
  ReadBiases(reader, config);
  ReadFactors(reader, config);
  config.layers = ReadLayerKinds(reader, config.family, config.num_hidden_layers);
}

/// Keys that say what is not computed.
void WarnOfUnusedKeys(const Json& json, const ModelConfig& config, std::vector<std::string>& out) {
  const std::string architecture = FirstArchitecture(ConfigReader(json, ""));
  if (!architecture.empty() && !absl::StartsWithIgnoreCase(architecture, config.FamilyName())) {
    out.push_back(absl::StrCat("config.json says architectures: ", architecture,
                               " and model_type: ", TraitsOf(config.family).model_type,
                               "; the latter counts, as in transformers 5"));
  }
  for (const char* key : {"attention_dropout", "resid_pdrop", "embd_pdrop"}) {
    const Json* rate = FindField(json, key);
    if (rate == nullptr || !rate->is_number() || rate->get<double>() == 0) continue;
    out.push_back(absl::StrCat("config.json says ", key, ": ", rate->dump(),
                               "; Baton trains without dropout, so that a token has the "
                               "probability that it was drawn with"));
  }
}

/// original_max_position_embeddings in the object of rotary parameters, under `key`, and outside.
void WarnOfOriginal(const Json& json, const std::string& key, const Json& rope,
                    const ModelConfig& config, std::vector<std::string>& out) {
  constexpr char kOriginal[] = "original_max_position_embeddings";
  const RopeScaling& scaling = config.rope.scaling;
  const bool used =
      scaling.type == RopeScaling::Type::kLlama3 || scaling.type == RopeScaling::Type::kLongRope;
  if (!used) return;
  const Json *inside = FindField(rope, kOriginal), *outside = FindField(json, kOriginal);
  const std::string taken = absl::StrCat(scaling.original_max_position_embeddings);
  const std::string path = absl::StrCat(key, ".", kOriginal);
  if (config.family == Family::kPhi3) {
    if (inside == nullptr || inside->dump() == taken) return;
    out.push_back(Contradiction(kOriginal, taken + (outside == nullptr ? " (its default)" : ""),
                                path, inside->dump()));
  } else if (outside != nullptr && outside->dump() != taken) {
    out.push_back(Contradiction(
        inside != nullptr ? path : "max_position_embeddings", taken,
        absl::StrCat(kOriginal, inside != nullptr ? "" : " outside of " + key), outside->dump()));
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
absl::Status CheckBiases(const ModelConfig& c) {
  const bool same = c.attention_output_bias == c.attention_bias;
  const bool mlp_may = IsOneOf(c.family, {Family::kLlama, Family::kSmolLm3, Family::kGranite});
  const bool fits = c.family == Family::kQwen2 ? c.attention_bias && !c.attention_output_bias
                    : IsOneOf(c.family, {Family::kMistral, Family::kPhi3})
                        ? same && !c.attention_bias
                        : same;
  if (fits && (mlp_may || !c.mlp_bias)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "biases: Qwen2 has them on q, k and v alone, Mistral and Phi-3 on none, the others on all of "
      "q, k, v and o or on none; of the feed-forward layer only Llama, SmolLM3 and Granite may "
      "have "
      "them");
}

absl::Status CheckFactors(const ModelConfig& c) {
  const auto divisor = static_cast<double>(c.query_pre_attn_scalar);
  for (const auto& [key, value] : {std::make_pair("embedding_multiplier", c.embedding_multiplier),
                                   std::make_pair("residual_multiplier", c.residual_multiplier),
                                   std::make_pair("attention_multiplier", c.attention_multiplier),
                                   std::make_pair("logits_scaling", c.logits_scaling),
                                   std::make_pair("query_pre_attn_scalar", divisor),
                                   std::make_pair("rope_local_base_freq", c.local_rope_theta)}) {
    // Written so that NaN fails too.
    if (!(value > 0 && value < 1e15)) {
      return absl::InvalidArgumentError(absl::StrCat(key, ": ", value, " is not positive"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckNumbers(const ModelConfig& c) {
  // Written so that NaN fails too.
  if (!(c.rms_norm_eps >= 0 && c.rms_norm_eps < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("rms_norm_eps: ", c.rms_norm_eps, " is not in [0, 1)"));
  }
  if (!(c.initializer_range >= 0 && c.initializer_range < 1e3)) {
    return absl::InvalidArgumentError(
        absl::StrCat("initializer_range: ", c.initializer_range, " is not in [0, 1000)"));
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

/// Keys that not every family has.
void WriteFamilyKeys(const ModelConfig& c, Json& json) {
  if (IsOneOf(c.family, {Family::kLlama, Family::kSmolLm3, Family::kGranite})) {
    json["mlp_bias"] = c.mlp_bias;
  }
  if (!IsOneOf(c.family, {Family::kQwen2, Family::kMistral, Family::kPhi3})) {
    json["attention_bias"] = c.attention_bias;
  }
  switch (c.family) {
    case Family::kPhi3:
      json["partial_rotary_factor"] = c.rope.partial_rotary_factor;
      if (c.rope.scaling.type == RopeScaling::Type::kLongRope) {  // goes before the object's
        json["original_max_position_embeddings"] = c.rope.scaling.original_max_position_embeddings;
      }
      break;
    case Family::kGranite:
      json["embedding_multiplier"] = c.embedding_multiplier;
      json["residual_multiplier"] = c.residual_multiplier;
      json["attention_multiplier"] = c.attention_multiplier;
      json["logits_scaling"] = c.logits_scaling;
      break;
    case Family::kGemma3:
      json.erase("hidden_act");
      json["hidden_activation"] = "gelu_pytorch_tanh";
      json["query_pre_attn_scalar"] = c.query_pre_attn_scalar;
      json["rope_local_base_freq"] = c.local_rope_theta;
      break;
    default:
      break;
  }
}

}  // namespace

const char* ModelConfig::FamilyName() const { return TraitsOf(family).name; }
const char* ModelConfig::ScalarFamilyName() const { return TraitsOf(family).scalar_name; }

int64_t ModelConfig::positions() const {
  if (rope.scaling.type != RopeScaling::Type::kLongRope) return max_position_embeddings;
  return std::min(max_position_embeddings, rope.scaling.original_max_position_embeddings);
}

int64_t ModelConfig::rotary_dim() const {
  return static_cast<int64_t>(static_cast<double>(head_dim) * rope.partial_rotary_factor);
}

double ModelConfig::query_scale() const {
  const auto dim = static_cast<double>(head_dim);
  if (family == Family::kGranite) return attention_multiplier * std::sqrt(dim);
  if (family == Family::kGemma3) return std::sqrt(dim / static_cast<double>(query_pre_attn_scalar));
  return 1.0;
}

double ModelConfig::embedding_scale() const {
  return family == Family::kGemma3 ? std::sqrt(static_cast<double>(hidden_size))
                                   : embedding_multiplier;
}

ModelConfig::HeadNorms ModelConfig::head_norms() const {
  if (family == Family::kOlmo2) return HeadNorms::kAllHeads;
  return IsOneOf(family, {Family::kQwen3, Family::kGemma3}) ? HeadNorms::kEachHead
                                                            : HeadNorms::kNone;
}

ModelConfig::NormFactor ModelConfig::norm_factor() const {
  if (family == Family::kGemma3) return NormFactor::kOnePlus;
  return family == Family::kOlmo2 ? NormFactor::kWideWeight : NormFactor::kWeight;
}

ModelConfig::Activation ModelConfig::activation() const {
  return family == Family::kGemma3 ? Activation::kGeluTanh : Activation::kSilu;
}

int64_t ModelConfig::NumParameters() const {
  const int64_t q = num_attention_heads * head_dim, kv = num_key_value_heads * head_dim;
  const int64_t norms = (has_input_norms() ? 2 : 0) + (has_output_norms() ? 2 : 0);
  int64_t layer =
      norms * hidden_size + hidden_size * (2 * q + 2 * kv) + 3 * hidden_size * intermediate_size;
  if (attention_bias) layer += q + 2 * kv;
  if (attention_output_bias) layer += hidden_size;
  if (mlp_bias) layer += 2 * intermediate_size + hidden_size;
  if (head_norms() == HeadNorms::kEachHead) layer += 2 * head_dim;
  if (head_norms() == HeadNorms::kAllHeads) layer += q + kv;
  return vocab_size * hidden_size * (tie_word_embeddings ? 1 : 2) + hidden_size +
         num_hidden_layers * layer;
}

absl::Status ModelConfig::Validate() const {
  BATON_RETURN_IF_ERROR(CheckSizes(*this));
  BATON_RETURN_IF_ERROR(CheckNumbers(*this));
  BATON_RETURN_IF_ERROR(CheckRope(rope, rotary_dim()));
  BATON_RETURN_IF_ERROR(CheckBiases(*this));
  BATON_RETURN_IF_ERROR(CheckLayerKinds(layers, family, num_hidden_layers));
  BATON_RETURN_IF_ERROR(CheckFactors(*this));
  if (bos_token_id) BATON_RETURN_IF_ERROR(CheckTokenId("bos_token_id", *bos_token_id, vocab_size));
  if (pad_token_id) BATON_RETURN_IF_ERROR(CheckTokenId("pad_token_id", *pad_token_id, vocab_size));
  for (int64_t id : eos_token_ids) {
    BATON_RETURN_IF_ERROR(CheckTokenId("eos_token_id", id, vocab_size));
  }
  return absl::OkStatus();
}

absl::StatusOr<ModelConfig> ModelConfig::FromJson(absl::string_view text) {
  BATON_ASSIGN_OR_RETURN(const Json json, ParseJsonObject(text, "config.json"));
  ConfigReader reader(json, "");
  ModelConfig config;
  BATON_RETURN_IF_ERROR(ReadFamily(reader, config));
  BATON_RETURN_IF_ERROR(RefuseUnsupported(reader, config));
  config.max_position_embeddings = TraitsOf(config.family).max_position_embeddings;
  ReadSizes(reader, config);
  ReadFamilyKeys(reader, config);
  BATON_RETURN_IF_ERROR(reader.status());
  BATON_RETURN_IF_ERROR(ReadRopeOf(reader, config));
  reader.Number("initializer_range", config.initializer_range);
  reader.OptionalInt("bos_token_id", config.bos_token_id);
  reader.OptionalInt("pad_token_id", config.pad_token_id);
  reader.IntOrList("eos_token_id", config.eos_token_ids);
  reader.String("torch_dtype", config.torch_dtype);
  reader.String("dtype", config.torch_dtype);  // goes before it, as in transformers 5
  reader.String(kModelDtypeKey, config.model_dtype);
  BATON_RETURN_IF_ERROR(reader.status());
  BATON_RETURN_IF_ERROR(config.Validate());
  return config;
}

std::vector<std::string> ModelConfig::Warnings(absl::string_view text) {
  std::vector<std::string> out;
  const auto parsed = ParseJsonObject(text, "config.json");
  if (!parsed.ok()) return out;
  const auto config = FromJson(text);
  if (!config.ok()) return out;
  WarnOfUnusedKeys(*parsed, *config, out);
  const auto compare = [&out](const std::string& key, const Json* value,
                              const std::string& other_key, const Json* other) {
    if (value == nullptr || other == nullptr || *value == *other) return;
    out.push_back(Contradiction(key, value->dump(), other_key, other->dump()));
  };
  compare("dtype", FindField(*parsed, "dtype"), "torch_dtype", FindField(*parsed, "torch_dtype"));
  WarnOfLayerKinds(*parsed, config->family, config->num_hidden_layers, config->layers, out);
  const Json* scaling = FindField(*parsed, "rope_scaling");
  const Json* parameters = FindField(*parsed, "rope_parameters");
  if (scaling != nullptr && scaling->empty()) scaling = nullptr;
  const bool gemma = config->family == Family::kGemma3;
  if (!gemma) compare("rope_scaling", scaling, "rope_parameters", parameters);
  Json rope = Json::object();
  if (parameters != nullptr && (gemma || scaling == nullptr)) {
    const Json* full = gemma ? FindField(*parameters, "full_attention") : parameters;
    if (full != nullptr) rope = *full;
  }
  if (scaling != nullptr) rope.update(*scaling);  // Gemma 3's is added to the other's
  const std::string key = scaling != nullptr ? "rope_scaling" : "rope_parameters";
  compare(key + ".rope_theta", FindField(rope, "rope_theta"), "rope_theta",
          FindField(*parsed, "rope_theta"));
  compare("rope_type", FindField(rope, "rope_type"), "type", FindField(rope, "type"));
  WarnOfOriginal(*parsed, key, rope, *config, out);
  return out;
}

absl::StatusOr<ModelConfig> ModelConfig::Sketch(absl::string_view text) {
  BATON_ASSIGN_OR_RETURN(const Json json, ParseJsonObject(text, "config.json"));
  ConfigReader reader(json, "");  // what it complains of is left out
  ModelConfig config;
  config.max_position_embeddings = 0;
  ReadFamily(reader, config).IgnoreError();  // most others have the keys of Llama
  ReadSizes(reader, config);
  ConfigReader family_keys(json, "");  // goes on where sizes were missing
  ReadFamilyKeys(family_keys, config);
  ConfigReader rope_keys(json, "");
  if (config.max_position_embeddings > 0) ReadRopeOf(rope_keys, config).IgnoreError();
  config.architecture = FirstArchitecture(reader);
  reader.String("model_type", config.model_type);
  return config;
}

std::string ModelConfig::ToJson() const {
  Json json = {{"architectures", {absl::StrCat(FamilyName(), "ForCausalLM")}},
               {"model_type", TraitsOf(family).model_type},
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
               {"rope_theta", rope.theta},
               {"rope_scaling", RopeScalingJson(rope.scaling, family == Family::kGemma3)},
               {"tie_word_embeddings", tie_word_embeddings},
               {"attention_dropout", 0.0},
               {"initializer_range", initializer_range},
               {"use_cache", true},
               {"bos_token_id", nullptr},
               {"eos_token_id", nullptr},
               {"torch_dtype", torch_dtype}};
  WriteFamilyKeys(*this, json);
  WriteLayerKinds(layers, family, num_hidden_layers, json);
  if (!model_dtype.empty()) json[kModelDtypeKey] = model_dtype;
  // Null, not absent: a family's config class has ids of its own for keys that are not there.
  json["pad_token_id"] = pad_token_id.has_value() ? Json(*pad_token_id) : Json(nullptr);
  if (bos_token_id) json["bos_token_id"] = *bos_token_id;
  if (eos_token_ids.size() == 1) {
    json["eos_token_id"] = eos_token_ids[0];
  } else if (!eos_token_ids.empty()) {
    json["eos_token_id"] = eos_token_ids;
  }
  return json.dump(2) + "\n";
}

}  // namespace baton
