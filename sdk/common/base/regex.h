// Regular expressions from outside (a tokenizer's pattern, a user's reward rule): PCRE2 in
// Unicode mode, with limits on work and memory, so that no pattern can hang a process.
//
//   BATON_ASSIGN_OR_RETURN(Regex regex, Regex::Compile("#(\\d+)"));
//   RegexMatcher matcher(regex, text);
//   BATON_ASSIGN_OR_RETURN(bool found, matcher.Find(0));
//   if (found) Use(matcher.group(1));
//
// \d \s \w and classes follow Unicode properties. A Regex is immutable and may be shared among
// threads; a RegexMatcher belongs to one.
#ifndef BATON_SDK_COMMON_BASE_REGEX_H_
#define BATON_SDK_COMMON_BASE_REGEX_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton {

struct RegexOptions {
  bool ignore_case = false;
  uint32_t match_limit = 10'000'000;     ///< Backtracking points per search.
  uint32_t heap_limit_kib = 64 * 1024;   ///< Memory per search.
  size_t max_pattern_bytes = 64 * 1024;  ///< Longer patterns are refused.
};

class Regex {
 public:
  /// INVALID_ARGUMENT names the fault and its byte offset in `pattern`.
  [[nodiscard]] static absl::StatusOr<Regex> Compile(absl::string_view pattern,
                                                     const RegexOptions& options = {});
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  const std::string& pattern() const;
  /// Number of capture groups, without group 0.
  int group_count() const;

 private:
  friend class RegexMatcher;
  struct Compiled;
  explicit Regex(std::unique_ptr<Compiled> compiled);
  std::unique_ptr<Compiled> compiled_;
};

/// Searches one text. `regex` and the bytes of `text` must outlive it.
class RegexMatcher {
 public:
  RegexMatcher(const Regex& regex, absl::string_view text);
  ~RegexMatcher();
  RegexMatcher(const RegexMatcher&) = delete;
  RegexMatcher& operator=(const RegexMatcher&) = delete;

  /// Finds the first match that begins at byte `start` or later (a character's edge; text before
  /// it is seen by look-behind). False: none. Errors: INVALID_ARGUMENT when the text is not
  /// UTF-8, RESOURCE_EXHAUSTED when a limit was reached.
  [[nodiscard]] absl::StatusOr<bool> Find(size_t start);

  // After Find returned true: bytes [begin, end) of the whole match.
  size_t begin() const { return begin_; }
  size_t end() const { return end_; }
  /// The text of a group (0: whole match), or nullopt when it took no part or does not exist.
  std::optional<absl::string_view> group(int number) const;

 private:
  struct State;
  const Regex& regex_;
  const absl::string_view text_;
  const bool valid_utf8_;
  std::unique_ptr<State> state_;
  size_t begin_ = 0;
  size_t end_ = 0;
  int groups_set_ = 0;
};

}  // namespace baton

#endif  // BATON_SDK_COMMON_BASE_REGEX_H_
