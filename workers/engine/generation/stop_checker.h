// The check whether a response is complete.
#ifndef BATON_WORKERS_ENGINE_GENERATION_STOP_CHECKER_H_
#define BATON_WORKERS_ENGINE_GENERATION_STOP_CHECKER_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/types/span.h"
#include "workers/engine/generation/sampler.h"

namespace baton::engine {

/// Tokens to their bytes, such as Tokenizer::DecodeBytes. The bytes of a sequence must be those of
/// its tokens one after the other (byte-level: a character's bytes may be spread over tokens), so
/// that text can be followed token by token.
using DecodeFunction = std::function<std::string(absl::Span<const int32_t>)>;

/// Follows one response, token by token.
class StopChecker {
 public:
  /// `decode` is called only if the params have stop strings. Both must outlive the checker.
  StopChecker(const SamplingParams* params, const DecodeFunction* decode);

  /// True if the response ends with `token` (which belongs to it): a stop token, or text that
  /// completes a stop string, neither before min_new_tokens tokens. A stop string counts wherever
  /// it lies in the newly completed text, across tokens too.
  bool Append(int32_t token);

  /// Tokens seen so far.
  int64_t length() const { return length_; }

 private:
  bool CompletesStopString(int32_t token);

  const SamplingParams* const params_;
  const DecodeFunction* const decode_;
  size_t longest_ = 0;  // of the stop strings, bytes
  int64_t length_ = 0;
  std::string tail_;  // the last bytes of the text, fewer than the longest stop string
};

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_GENERATION_STOP_CHECKER_H_
