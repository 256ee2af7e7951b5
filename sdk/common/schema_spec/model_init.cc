#include "sdk/common/schema_spec/model_init.h"

#include <algorithm>
#include <cstdint>

#include "sdk/common/messages/settings.h"

namespace baton {
namespace {

// Llama's ratio, as a multiple of 8 that the spec's bounds allow.
int IntermediateSize(int64_t hidden_size) {
  const v1::Setting setting =
      SettingOf<v1::ModelInitSpec>(v1::ModelInitSpec::kIntermediateSizeFieldNumber);
  return static_cast<int>(std::clamp<int64_t>((4 * hidden_size + 7) / 8 * 8,
                                              static_cast<int64_t>(setting.min()),
                                              static_cast<int64_t>(setting.max())));
}

}  // namespace

void FillModelInit(v1::ModelInitSpec* init) {
  FillDefaults(init);
  if (!init->has_intermediate_size()) {
    init->set_intermediate_size(IntermediateSize(init->hidden_size()));
  }
  if (!init->has_num_key_value_heads()) {
    init->set_num_key_value_heads(std::max(1, init->num_attention_heads()));
  }
}

ModelConfig InitConfig(const v1::ModelInitSpec& given, int64_t vocab_size) {
  v1::ModelInitSpec init = given;
  FillModelInit(&init);
  ModelConfig config;
  config.family = ModelConfig::Family::kLlama;
  config.vocab_size = vocab_size;
  config.hidden_size = init.hidden_size();
  config.intermediate_size = init.intermediate_size();
  config.num_hidden_layers = init.num_hidden_layers();
  config.num_attention_heads = init.num_attention_heads();
  config.num_key_value_heads = init.num_key_value_heads();
  config.head_dim = config.hidden_size / std::max(1, init.num_attention_heads());
  config.max_position_embeddings = init.max_position_embeddings();
  config.tie_word_embeddings = init.tie_word_embeddings();
  return config;
}

}  // namespace baton
