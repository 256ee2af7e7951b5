#include "tests/fake_worker/fake_scores.h"

#include <string>

#include "sdk/common/contracts/raw_values.h"
#include "sdk/common/messages/columns.h"
#include "xxhash.h"

namespace baton::fake {
namespace {

std::vector<int32_t> TokensOf(const v1::Trajectory& trajectory, absl::string_view name,
                              const std::string& text) {
  const v1::Column* column = FindColumn(trajectory, name);
  if (column != nullptr) return RawValues<int32_t>(column->data());
  return {text.begin(), text.end()};
}

float Unit(uint64_t hash) { return static_cast<float>(hash % 1025) / 1024; }  // exact in float32

}  // namespace

std::vector<float> TokenScores(uint64_t seed, const v1::Trajectory& trajectory, float low,
                               bool with_token) {
  uint64_t state = seed;
  const auto read = [&state](int32_t token) {
    state = XXH3_64bits_withSeed(&token, sizeof(token), state);
  };
  for (const int32_t token : TokensOf(trajectory, "prompt_tokens", trajectory.prompt_text())) {
    read(token);
  }
  std::vector<float> scores;
  for (const int32_t token : TokensOf(trajectory, "tokens", trajectory.response_text())) {
    if (with_token) read(token);
    scores.push_back(low + Unit(state));
    if (!with_token) read(token);
  }
  return scores;
}

double LearnedScore(absl::string_view model, absl::string_view response_text) {
  const uint64_t seed = XXH3_64bits(model.data(), model.size());
  return Unit(XXH3_64bits_withSeed(response_text.data(), response_text.size(), seed));
}

v1::TaskResult ColumnResult(const std::string& name, const std::vector<float>& values) {
  v1::TaskResult result;
  *result.add_columns() = MakeColumn(name, /*per_token=*/true, values);
  return result;
}

}  // namespace baton::fake
