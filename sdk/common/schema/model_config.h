// A decoder's configuration from a Hugging Face config.json: Llama, Mistral, Qwen2 and Qwen3.
//
// The families are the same network (RMSNorm, rotary positions, grouped-query attention, SwiGLU).
// They differ in which projections have biases; Qwen3 also normalises each head's query and key
// before they are rotated. Anything the engine (workers/engine) does not compute exactly (layers
// with and without a sliding window, other activations, quantized weights, other rope scalings) is
// refused here, so that a model which loads is a model which is right.
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

namespace baton {

/// The change of rotary frequencies for contexts longer than the model was first trained on.
struct RopeScaling {
  enum class Type {
    kNone,
    kLlama3,  ///< Long wavelengths divided by `factor`, short kept, between them interpolated.
    kLinear,  ///< Every frequency divided by `factor`.
  };
  Type type = Type::kNone;
  double factor = 1.0;
  double low_freq_factor = 1.0;                     ///< kLlama3 only.
  double high_freq_factor = 4.0;                    ///< kLlama3 only.
  int64_t original_max_position_embeddings = 8192;  ///< kLlama3 only; tokens.
};

/// The key in a config.json of ModelConfig.model_dtype.
inline constexpr char kModelDtypeKey[] = "baton_model_dtype";

/// A plain value. Only `Validate`d (or parsed) configurations build models.
struct ModelConfig {
  enum class Family {
    kLlama,    ///< LlamaForCausalLM, model_type "llama".
    kQwen2,    ///< Qwen2ForCausalLM, model_type "qwen2"; biases on q, k and v.
    kQwen3,    ///< Qwen3ForCausalLM, model_type "qwen3"; norms of queries and keys.
    kMistral,  ///< MistralForCausalLM, model_type "mistral"; no biases.
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
  /// Mistral: a token attends to so many tokens, itself included; absent: to all. Sequences up to
  /// this length are computed as by full attention, and longer ones are refused (positions).
  std::optional<int64_t> sliding_window;

  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  RopeScaling rope_scaling;

  bool tie_word_embeddings = false;
  bool attention_bias = false;         ///< q, k and v projections. Always true for Qwen2.
  bool attention_output_bias = false;  ///< o projection. Equals attention_bias but for Qwen2.
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

  /// The longest sequence, in tokens, that the engine computes as the model was trained to.
  int64_t positions() const {
    return std::min(max_position_embeddings, sliding_window.value_or(max_position_embeddings));
  }
  /// Whether queries and keys have norms of their own, [head_dim] each.
  bool has_head_norms() const { return family == Family::kQwen3; }
  /// The prefix of the names of transformers' classes: "Llama", "Qwen3", …
  const char* FamilyName() const;

  /// The number of parameters; a tied head counts once. (sdk/planner/placement/model_cost.h has
  /// models with a scalar head, and what a token costs.)
  int64_t NumParameters() const;

  /// InvalidArgument naming the key and the limit it breaks.
  [[nodiscard]] absl::Status Validate() const;

  /// Reads the text of a config.json. Keys that do not change the computation are ignored.
  /// InvalidArgument (malformed; names the key) or Unimplemented (a feature we do not compute).
  [[nodiscard]] static absl::StatusOr<ModelConfig> FromJson(absl::string_view json);

  /// As above, for a reader that plans or checks and does not compute: it takes the sizes, biases
  /// and positions that it finds, of any family. A value that is missing or of a wrong type is 0,
  /// false or empty. InvalidArgument: it is no JSON object.
  [[nodiscard]] static absl::StatusOr<ModelConfig> Sketch(absl::string_view json);

  /// A config.json that Python's transformers loads and FromJson reads back to the same value.
  std::string ToJson() const;

  friend bool operator==(const ModelConfig& a, const ModelConfig& b) {
    return a.ToJson() == b.ToJson();
  }
};

}  // namespace baton

#endif  // BATON_SDK_COMMON_SCHEMA_MODEL_CONFIG_H_
