#include "sdk/common/schema/rope.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "sdk/common/base/status_macros.h"

namespace baton {
namespace {

constexpr char kParameters[] = "rope_parameters";
constexpr char kScaling[] = "rope_scaling";
constexpr char kOriginal[] = "original_max_position_embeddings";
constexpr char kPartial[] = "partial_rotary_factor";
constexpr char kFull[] = "full_attention";
constexpr char kSliding[] = "sliding_attention";

/// The object under `key`; null: it is absent, null or empty.
absl::StatusOr<const Json*> ObjectOf(const ConfigReader& reader, const char* key) {
  const Json* json = reader.Find(key);
  if (json == nullptr) return json;
  if (!json->is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(key, ": must be an object"));
  }
  return json->empty() ? nullptr : json;
}

/// Frequencies of pairs of channels, each divided by a factor of its own.
void ReadLongRope(ConfigReader& rope, int64_t max_position_embeddings, RopeScaling& scaling) {
  scaling.type = RopeScaling::Type::kLongRope;
  rope.Numbers("short_factor", scaling.short_factor);
  rope.Numbers("long_factor", scaling.long_factor);
  const double original = static_cast<double>(scaling.original_max_position_embeddings);
  scaling.factor = static_cast<double>(max_position_embeddings) / original;
  rope.Number("factor", scaling.factor);
  // As transformers' _compute_longrope_parameters.
  scaling.attention_factor =
      scaling.factor <= 1 ? 1.0 : std::sqrt(1 + std::log(scaling.factor) / std::log(original));
  rope.Number("attention_factor", scaling.attention_factor);
}

/// One object of rotary parameters; `where` is its key.
absl::Status ReadObject(const Json& json, const std::string& where, ConfigReader& config,
                        const RopeContext& context, Rope& out) {
  ConfigReader rope(json, absl::StrCat(where, "."));
  std::string type = "default";
  rope.String("type", type);
  rope.String("rope_type", type);
  rope.Number("rope_theta", out.theta);
  rope.Number(kPartial, out.partial_rotary_factor);
  RopeScaling& scaling = out.scaling;
  scaling.original_max_position_embeddings = context.max_position_embeddings;
  rope.Int(kOriginal, scaling.original_max_position_embeddings);
  if (context.original) {
    scaling.original_max_position_embeddings = *context.original;
    config.Int(kOriginal, scaling.original_max_position_embeddings);
  }
  if (type == "llama3") {
    scaling.type = RopeScaling::Type::kLlama3;
    rope.Number("factor", scaling.factor, true);
    rope.Number("low_freq_factor", scaling.low_freq_factor, true);
    rope.Number("high_freq_factor", scaling.high_freq_factor, true);
  } else if (type == "linear") {
    scaling.type = RopeScaling::Type::kLinear;
    rope.Number("factor", scaling.factor, true);
  } else if (type == "longrope") {
    ReadLongRope(rope, context.max_position_embeddings, scaling);
  } else if (type != "default") {
    return absl::UnimplementedError(absl::StrCat(
        where, ".rope_type: \"", type, "\" is not supported; use llama3, linear or longrope"));
  }
  return rope.status();
}

}  // namespace

absl::Status ReadRope(ConfigReader& reader, const RopeContext& context, Rope& rope) {
  reader.Number("rope_theta", rope.theta);
  reader.Number(kPartial, rope.partial_rotary_factor);
  BATON_RETURN_IF_ERROR(reader.status());
  for (const char* key : {kScaling, kParameters}) {
    BATON_ASSIGN_OR_RETURN(const Json* json, ObjectOf(reader, key));
    if (json == nullptr) continue;
    if (json->contains(kFull) || json->contains(kSliding)) {
      return absl::UnimplementedError(absl::StrCat(
          key, ": rotary positions by type of layer are not supported for this family"));
    }
    return ReadObject(*json, key, reader, context, rope);
  }
  return absl::OkStatus();
}

absl::Status ReadRopeByLayerType(ConfigReader& reader, const RopeContext& context, Rope& rope,
                                 double& local_theta) {
  reader.Number("rope_theta", rope.theta);
  reader.Number("rope_local_base_freq", local_theta);
  reader.Number(kPartial, rope.partial_rotary_factor);
  BATON_RETURN_IF_ERROR(reader.status());
  BATON_ASSIGN_OR_RETURN(const Json* parameters, ObjectOf(reader, kParameters));
  BATON_ASSIGN_OR_RETURN(const Json* added, ObjectOf(reader, kScaling));
  Json full = Json::object();
  // Without rope_parameters its type is there before rope_scaling is added: `rope_type` can replace
  // it, `type` cannot.
  if (parameters == nullptr) full["rope_type"] = "default";
  if (parameters != nullptr) {
    for (const auto& [key, value] : parameters->items()) {
      if ((key == kFull || key == kSliding) && (value.is_object() || value.is_null())) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          kParameters, ".", key, ": this family has an object for each type of layer there, ",
          kFull, " and ", kSliding));
    }
    if (const Json* own = FindField(*parameters, kFull)) full = *own;
    if (const Json* own = FindField(*parameters, kSliding)) {
      Rope local;
      local.theta = local_theta;
      const std::string where = absl::StrCat(kParameters, ".", kSliding);
      BATON_RETURN_IF_ERROR(ReadObject(*own, where, reader, context, local));
      if (local.scaling.type != RopeScaling::Type::kNone || local.partial_rotary_factor != 1) {
        return absl::UnimplementedError(absl::StrCat(where, ": scaled frequencies (rope_type) and ",
                                                     kPartial, " are not supported there"));
      }
      local_theta = local.theta;
    }
  }
  if (added != nullptr) full.update(*added);
  return ReadObject(full, added != nullptr ? kScaling : absl::StrCat(kParameters, ".", kFull),
                    reader, context, rope);
}

Json RopeScalingJson(const RopeScaling& scaling, bool by_layer_type) {
  switch (scaling.type) {
    case RopeScaling::Type::kNone:
      return nullptr;
    case RopeScaling::Type::kLinear:
      // Exactly these two keys: transformers before 4.43 refuses any other.
      return {{by_layer_type ? "rope_type" : "type", "linear"}, {"factor", scaling.factor}};
    case RopeScaling::Type::kLlama3:
      return {{"rope_type", "llama3"},
              {"factor", scaling.factor},
              {"low_freq_factor", scaling.low_freq_factor},
              {"high_freq_factor", scaling.high_freq_factor},
              {kOriginal, scaling.original_max_position_embeddings}};
    case RopeScaling::Type::kLongRope:
      return {{"rope_type", "longrope"},
              {"short_factor", scaling.short_factor},
              {"long_factor", scaling.long_factor},
              {"factor", scaling.factor},
              {"attention_factor", scaling.attention_factor},
              {kOriginal, scaling.original_max_position_embeddings}};
  }
  return nullptr;
}

absl::Status CheckRope(const Rope& rope, int64_t rotary_dim) {
  // Written so that NaN fails too.
  if (!(rope.theta > 0 && rope.theta < 1e15)) {
    return absl::InvalidArgumentError(absl::StrCat("rope_theta: ", rope.theta, " is not positive"));
  }
  if (!(rope.partial_rotary_factor > 0 && rope.partial_rotary_factor <= 1) || rotary_dim < 2 ||
      rotary_dim % 2 != 0) {
    return absl::InvalidArgumentError(absl::StrCat(kPartial, ": ", rope.partial_rotary_factor,
                                                   " makes ", rotary_dim,
                                                   " channels of a head rotate; an even number "
                                                   "from 2 to head_dim is needed"));
  }
  const RopeScaling& s = rope.scaling;
  const bool long_rope = s.type == RopeScaling::Type::kLongRope;
  if (!(s.factor > 0) ||
      (s.type == RopeScaling::Type::kLlama3 &&
       !(s.low_freq_factor > 0 && s.high_freq_factor > s.low_freq_factor)) ||
      ((long_rope || s.type == RopeScaling::Type::kLlama3) &&
       !(s.original_max_position_embeddings > 0))) {
    return absl::InvalidArgumentError(
        "rope_scaling: factor must be positive, and for llama3 0 < low_freq_factor < "
        "high_freq_factor and original_max_position_embeddings > 0");
  }
  if (!long_rope) return absl::OkStatus();
  for (const auto* factors : {&s.short_factor, &s.long_factor}) {
    bool good = static_cast<int64_t>(factors->size()) == rotary_dim / 2;
    for (const double factor : *factors) good = good && factor > 0;
    if (good) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("rope_scaling: short_factor and long_factor must have ", rotary_dim / 2,
                     " positive numbers each, one for every pair of channels that is rotated"));
  }
  if (!(s.attention_factor > 0)) {
    return absl::InvalidArgumentError("rope_scaling.attention_factor: must be positive");
  }
  return absl::OkStatus();
}

}  // namespace baton
