// Reads the `model` of tokenizer.json.
#ifndef BATON_WORKERS_TOKENIZER_TOKENS_MODEL_JSON_H_
#define BATON_WORKERS_TOKENIZER_TOKENS_MODEL_JSON_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "sdk/common/schema/json_fields.h"
#include "workers/tokenizer/tokens/token_model.h"

namespace baton::tokenizer {

/// Larger ids are refused.
inline constexpr int64_t kMaxId = (int64_t{1} << 24) - 1;

struct ParsedModel {
  std::unique_ptr<const TokenModel> model;
  std::vector<std::pair<std::string, int32_t>> vocab;  ///< In the order of the file's reader.
  std::optional<int32_t> unk_id;
  /// The model takes the bytes of a word themselves, not their byte alphabet (byte_level.h).
  bool takes_bytes = false;
};

/// `byte_level`: the vocabulary is in the byte alphabet. Plain text never becomes the tokens of
/// `special`. INVALID_ARGUMENT or UNIMPLEMENTED says what is wrong and where.
[[nodiscard]] absl::StatusOr<ParsedModel> ParseModel(const Json& model, bool byte_level,
                                                     const std::unordered_set<int32_t>& special);

/// The vocabulary by ascending id, so that the file alone, not the order of a hash map, says which
/// token an error names. The texts are those of `model`.
[[nodiscard]] std::vector<std::pair<int32_t, const std::string*>> ById(const ParsedModel& model);

}  // namespace baton::tokenizer

#endif  // BATON_WORKERS_TOKENIZER_TOKENS_MODEL_JSON_H_
