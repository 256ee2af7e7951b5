// Folders of tiny models with the tokenizers of workers/tokenizer/testdata.
#ifndef BATON_TESTS_SUPPORT_WORKERS_MODEL_FOLDER_H_
#define BATON_TESTS_SUPPORT_WORKERS_MODEL_FOLDER_H_

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "sdk/common/schema/model_config.h"
#include "workers/tokenizer/tokens/tokenizer.h"

namespace baton::policy {

inline std::string TokenizerTestdata() {
  return std::string(std::getenv("BATON_SOURCE_DIR")) + "/workers/tokenizer/testdata/";
}

/// A tiny model with the tokenizer of the tests; without weights.
inline void WriteModel(const std::string& folder, const std::string& tokenizer = "qwen2") {
  std::filesystem::copy_file(TokenizerTestdata() + "tokenizer_" + tokenizer + ".json",
                             folder + "/tokenizer.json");
  ModelConfig config;
  config.vocab_size = tokenizer::Tokenizer::Load(folder).value()->vocab_size();
  config.hidden_size = config.intermediate_size = 8;
  config.num_hidden_layers = config.num_attention_heads = config.num_key_value_heads = 1;
  config.head_dim = 8;
  std::ofstream(folder + "/config.json") << config.ToJson();
}

}  // namespace baton::policy

#endif  // BATON_TESTS_SUPPORT_WORKERS_MODEL_FOLDER_H_
