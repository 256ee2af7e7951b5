// The families of decoders that Baton knows: their names, and the values of keys that a config.json
// may go without.
#ifndef BATON_SDK_COMMON_SCHEMA_MODEL_FAMILIES_H_
#define BATON_SDK_COMMON_SCHEMA_MODEL_FAMILIES_H_

#include <cstdint>
#include <initializer_list>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton {

enum class ModelFamily {
  kLlama,    ///< LlamaForCausalLM, model_type "llama".
  kQwen2,    ///< Qwen2ForCausalLM, model_type "qwen2"; biases on q, k and v.
  kQwen3,    ///< Qwen3ForCausalLM, model_type "qwen3"; norms of queries and keys.
  kMistral,  ///< MistralForCausalLM, model_type "mistral"; no biases.
  kSmolLm3,  ///< SmolLM3ForCausalLM, model_type "smollm3"; layers that do not rotate.
  kPhi3,     ///< Phi3ForCausalLM, model_type "phi3"; q, k and v are one tensor in its files.
  kOlmo2,    ///< Olmo2ForCausalLM, model_type "olmo2"; norms behind attention and feed-forward.
  kGranite,  ///< GraniteForCausalLM, model_type "granite"; factors at several places.
  kGemma3,   ///< Gemma3ForCausalLM, model_type "gemma3_text"; norms before and behind.
};

/// A family's names, and the values of keys that its config.json may go without, as transformers'
/// (5.24) config classes have them.
struct FamilyTraits {
  ModelFamily family;
  const char* model_type;
  const char* name;             ///< transformers' classes without "ForCausalLM"
  const char* scalar_name;      ///< … without "ForSequenceClassification"
  int64_t num_key_value_heads;  ///< 0: as many as attention heads
  int64_t head_dim;             ///< 0: hidden_size / num_attention_heads
  int64_t max_position_embeddings;
  double rms_norm_eps;
  double rope_theta;
  bool tied;
};

const FamilyTraits& TraitsOf(ModelFamily family);

/// Unimplemented, with what the engine lacks for families that people ask for.
absl::StatusOr<ModelFamily> FamilyOfModelType(absl::string_view model_type);

bool IsOneOf(ModelFamily family, std::initializer_list<ModelFamily> families);

}  // namespace baton

#endif  // BATON_SDK_COMMON_SCHEMA_MODEL_FAMILIES_H_
