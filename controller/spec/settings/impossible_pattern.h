// Patterns of rules and verdicts that compile and can never match, so that a job would learn from a
// reward that is always the same.
#ifndef BATON_CONTROLLER_SPEC_SETTINGS_IMPOSSIBLE_PATTERN_H_
#define BATON_CONTROLLER_SPEC_SETTINGS_IMPOSSIBLE_PATTERN_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace baton::controller {

/// What is known of the texts that a pattern is matched against.
struct JudgedText {
  bool stripped = false;        ///< They have no ASCII white space at their ends.
  std::string characters;       ///< They have only these; empty: any.
  int64_t most_characters = 0;  ///< They have at most so many; 0: any number.
  bool ignore_case = false;     ///< Of the match.
};

/// Why `pattern`, which compiles as PCRE2 (sdk/common/base/regex.h), matches none of these texts;
/// "": it may match one. It looks for mistakes that are certain and cheap to see, outside of
/// groups:
///   - "^" or \A behind something that takes a character: "a^b"
///   - "$", \Z or \z in front of something that takes more than the last line's end: "$#(\d+)"
///   - (?!) and (*FAIL), which fail everywhere
///   - white space at a stripped text's end: "^ x", "x\n$"
///   - a character or digit that the texts do not have
///   - more characters than the texts have
/// Nothing is said of a pattern with an option such as (?m), with a back reference, or with another
/// construct that it does not know. "{answer}" stands for any text.
std::string WhyNeverMatches(absl::string_view pattern, const JudgedText& text);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_SPEC_SETTINGS_IMPOSSIBLE_PATTERN_H_
