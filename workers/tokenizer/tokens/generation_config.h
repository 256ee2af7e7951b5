// generation_config.json of a Hugging Face directory: how the model's author wants it sampled.
#ifndef BATON_WORKERS_TOKENIZER_TOKENS_GENERATION_CONFIG_H_
#define BATON_WORKERS_TOKENIZER_TOKENS_GENERATION_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton::tokenizer {

/// Absent fields are absent in the file; the reader's own defaults hold. Fields that are not named
/// here are neither read nor written.
struct GenerationConfig {
  std::vector<int32_t> eos_token_ids;  ///< An integer or a list in the file.
  std::optional<int32_t> bos_token_id;
  std::optional<int32_t> pad_token_id;
  std::optional<bool> do_sample;      ///< False: greedy.
  std::optional<double> temperature;  ///< >= 0
  std::optional<double> top_p;        ///< (0, 1]
  std::optional<int64_t> top_k;       ///< 0: off

  /// INVALID_ARGUMENT names the field that is wrong.
  /// `file` stands in its messages.
  [[nodiscard]] static absl::StatusOr<GenerationConfig> FromJson(
      absl::string_view json, const std::string& file = "generation_config.json");
  /// Reads `dir`/generation_config.json. NOT_FOUND when there is none.
  [[nodiscard]] static absl::StatusOr<GenerationConfig> Load(const std::string& dir);

  [[nodiscard]] std::string ToJson() const;
  /// Writes `dir`/generation_config.json, replacing it at once.
  [[nodiscard]] absl::Status Save(const std::string& dir) const;
};

}  // namespace baton::tokenizer

#endif  // BATON_WORKERS_TOKENIZER_TOKENS_GENERATION_CONFIG_H_
