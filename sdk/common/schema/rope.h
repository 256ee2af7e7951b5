// What a config.json says of rotary positions: the frequencies, their change for long contexts, and
// the part of a head that is rotated.
#ifndef BATON_SDK_COMMON_SCHEMA_ROPE_H_
#define BATON_SDK_COMMON_SCHEMA_ROPE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "sdk/common/schema/config_reader.h"
#include "sdk/common/schema/json_fields.h"

namespace baton {

/// The change of rotary frequencies for contexts longer than the model was first trained on.
struct RopeScaling {
  enum class Type {
    kNone,
    kLlama3,    ///< Long wavelengths divided by `factor`, short kept, between them interpolated.
    kLinear,    ///< Every frequency divided by `factor`.
    kLongRope,  ///< Each frequency divided by a factor of its own (Phi-3; arXiv 2402.13753).
  };
  Type type = Type::kNone;
  double factor = 1.0;
  double low_freq_factor = 1.0;                     ///< kLlama3 only.
  double high_freq_factor = 4.0;                    ///< kLlama3 only.
  int64_t original_max_position_embeddings = 8192;  ///< kLlama3 and kLongRope; tokens.
  /// kLongRope: one divisor for each pair of channels, in sequences of up to
  /// original_max_position_embeddings tokens, and in longer ones. The engine computes the former.
  std::vector<double> short_factor, long_factor;
  /// kLongRope: cosines and sines are multiplied by it.
  double attention_factor = 1.0;
};

struct Rope {
  double theta = 10000.0;  ///< The frequency of pair i of d channels is theta^(-2i/d).
  RopeScaling scaling;
  /// Share of a head's channels, its first ones, that are rotated.
  double partial_rotary_factor = 1.0;
};

/// What the rest of the config says.
struct RopeContext {
  int64_t max_position_embeddings = 0;
  /// The config class has a key original_max_position_embeddings outside of the object, with this
  /// default; it goes before the object's own. Absent: the object's own counts alone, and without
  /// one max_position_embeddings.
  std::optional<int64_t> original;
};

/// Reads `rope` from rope_scaling, rope_parameters and rope_theta; what none of them says stays as
/// it is. Where several say it, it is as in transformers (5.24): rope_scaling, if it is there and
/// not empty, replaces rope_parameters; in the object `rope_type` goes before `type`, and its
/// rope_theta before the one outside. InvalidArgument names the key; Unimplemented: another type of
/// scaling.
[[nodiscard]] absl::Status ReadRope(ConfigReader& reader, const RopeContext& context, Rope& rope);

/// ReadRope for Gemma 3, whose layers with a sliding window have frequencies of their own:
/// `local_theta`. rope_parameters holds an object for each type of layer; rope_scaling is added to
/// that of full attention.
[[nodiscard]] absl::Status ReadRopeByLayerType(ConfigReader& reader, const RopeContext& context,
                                               Rope& rope, double& local_theta);

/// The value of rope_scaling that ReadRope reads back, or ReadRopeByLayerType; null for kNone.
Json RopeScalingJson(const RopeScaling& scaling, bool by_layer_type);

/// InvalidArgument: numbers that no model has. `rotary_dim`: channels of a head that are rotated.
[[nodiscard]] absl::Status CheckRope(const Rope& rope, int64_t rotary_dim);

}  // namespace baton

#endif  // BATON_SDK_COMMON_SCHEMA_ROPE_H_
