// A decoder's configuration from a Hugging Face config.json.
//
// The families are one network: RMSNorm, rotary positions, grouped-query attention, gated linear
// units. What they differ in is told here: biases, places of the norms, factors, layers that do not
// rotate or that have a sliding window. Anything the engine (workers/engine) does not compute
// exactly (other activations, quantized weights, other rope scalings) is refused here, so that a
// model which loads is a model which is right.
#ifndef BATON_SDK_COMMON_SCHEMA_MODEL_CONFIG_H_
#define BATON_SDK_COMMON_SCHEMA_MODEL_CONFIG_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "sdk/common/schema/layer_kinds.h"
#include "sdk/common/schema/model_families.h"
#include "sdk/common/schema/rope.h"

namespace baton {

/// The key in a config.json of ModelConfig.model_dtype.
inline constexpr char kModelDtypeKey[] = "baton_model_dtype";

/// A plain value. Only `Validate`d (or parsed) configurations build models.
struct ModelConfig {
  using Family = ModelFamily;
  /// Norms of queries and keys, before they are rotated.
  enum class HeadNorms {
    kNone,
    kEachHead,  ///< Of every head alone, with the same weights: [head_dim].
    kAllHeads,  ///< Of all heads of a token together: [heads * head_dim].
  };
  enum class Activation {
    kSilu,
    kGeluTanh,  ///< GELU by its approximation with tanh.
  };
  /// The factor that a norm's weight w is.
  enum class NormFactor {
    kWeight,      ///< w, behind the rounding to the type of the input.
    kWideWeight,  ///< w, before it.
    kOnePlus,     ///< 1 + w, before it.
  };

  Family family = Family::kLlama;
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;  ///< Divides num_attention_heads.
  int64_t head_dim = 0;             ///< Even; 0 is not valid (parsing fills hidden/heads in).
  int64_t max_position_embeddings = 2048;
  LayerKinds layers;

  double rms_norm_eps = 1e-6;
  Rope rope;
  double local_rope_theta = 10000.0;  ///< Gemma 3: of the layers with a window.

  // Granite. Embeddings, what a layer adds, and the scores of attention are multiplied, and logits
  // divided.
  double embedding_multiplier = 1.0;
  double residual_multiplier = 1.0;
  double attention_multiplier = 1.0;
  double logits_scaling = 1.0;
  int64_t query_pre_attn_scalar = 256;  ///< Gemma 3: scores are divided by its square root.

  bool tie_word_embeddings = false;
  bool attention_bias = false;         ///< q, k and v projections. Always true for Qwen2.
  bool attention_output_bias = false;  ///< o projection. As attention_bias, but false for Qwen2.
  bool mlp_bias = false;

  double initializer_range = 0.02;
  std::optional<int64_t> bos_token_id;
  std::optional<int64_t> pad_token_id;
  std::vector<int64_t> eos_token_ids;   ///< A number or a list in JSON.
  std::string torch_dtype = "float32";  ///< Type in the files: float32, float16 or bfloat16.
  /// The first of `architectures`, e.g. "LlamaForCausalLM", and `model_type`, e.g. "llama", as the
  /// file says them; Sketch alone fills them in.
  std::string architecture, model_type;
  /// In a trainer's copy in another type (key `baton_model_dtype`), the type of the model that
  /// training began with. Empty: torch_dtype.
  std::string model_dtype;

  const std::string& original_dtype() const {
    return model_dtype.empty() ? torch_dtype : model_dtype;
  }

  /// The longest sequence, in tokens, that the engine computes as the model was trained to. A
  /// sliding window does not bound it.
  int64_t positions() const;
  /// Channels of a head, its first ones, that are rotated.
  int64_t rotary_dim() const;
  /// The factor of queries beside the 1 / sqrt(head_dim) of attention's scores.
  double query_scale() const;
  /// The factor of embeddings.
  double embedding_scale() const;
  HeadNorms head_norms() const;
  NormFactor norm_factor() const;
  Activation activation() const;
  /// Whether attention and feed-forward layer have norms before them, and behind them.
  bool has_input_norms() const { return family != Family::kOlmo2; }
  bool has_output_norms() const { return family == Family::kOlmo2 || family == Family::kGemma3; }
  /// The names of transformers' classes without ForCausalLM ("Llama", "Qwen3", …), and without
  /// ForSequenceClassification.
  const char* FamilyName() const;
  const char* ScalarFamilyName() const;

  /// The number of parameters; a tied head counts once. (sdk/planner/placement/model_cost.h has
  /// models with a scalar head, and what a token costs.)
  int64_t NumParameters() const;

  /// InvalidArgument naming the key and the limit it breaks.
  [[nodiscard]] absl::Status Validate() const;

  /// Reads the text of a config.json. Keys that do not change the computation are ignored.
  /// InvalidArgument (malformed; names the key) or Unimplemented (a feature we do not compute).
  [[nodiscard]] static absl::StatusOr<ModelConfig> FromJson(absl::string_view json);

  /// What counts otherwise than a reader of a config.json might think, one sentence each: keys that
  /// contradict each other, and which of the two counts; dropout, which training goes without.
  /// Empty for a text that FromJson refuses.
  static std::vector<std::string> Warnings(absl::string_view json);

  /// As FromJson, for a reader that plans or checks and does not compute: it takes the sizes,
  /// biases and positions that it finds, of any family. A value that is missing or of a wrong type
  /// is 0, false or empty. InvalidArgument: it is no JSON object.
  [[nodiscard]] static absl::StatusOr<ModelConfig> Sketch(absl::string_view json);

  /// A config.json that Python's transformers loads and FromJson reads back to the same value.
  std::string ToJson() const;

  friend bool operator==(const ModelConfig& a, const ModelConfig& b) {
    return a.ToJson() == b.ToJson();
  }
};

}  // namespace baton

#endif  // BATON_SDK_COMMON_SCHEMA_MODEL_CONFIG_H_
