// Rewards by rule: the response, or what is extracted from it, against the answer.
//
//   exact_match  the same text as the answer
//   numeric      the same number as the answer: "1,234.50" equals "1234.5". The last \boxed{…} of
//                the text counts, else its last number (docs/numeric.md says what equals what). A
//                text that may mean several numbers is not correct: score "ambiguous"
//   regex        `pattern` matches somewhere in the text (anchor it with ^ and $ for all of it)
#ifndef BATON_WORKERS_REWARD_RULE_H_
#define BATON_WORKERS_REWARD_RULE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "workers/reward/reward_function.h"

namespace baton::reward {

struct RuleOptions {
  std::string type;         ///< exact_match, numeric or regex
  std::string extract;      ///< PCRE2: the first group (without groups: all) of its LAST
                            ///< match is judged; no match: not correct. Empty: all is judged.
  std::string pattern;      ///< For regex only, PCRE2; "{answer}" stands for the answer's text.
  double tolerance = 1e-9;  ///< For numeric: largest allowed |difference|.
  bool percent_is_hundredths = false;  ///< For numeric: "50%" is 0.5; else it is 50.
  bool strip = true;                 ///< White space at the ends of text and answer does not count.
  bool ignore_case = false;          ///< Of all letters of Unicode, one for one (fold_text.h).
  std::vector<std::string> sources;  ///< Only lines of these are judged; empty: all.
  double reward = 1;                 ///< Reward when the rule holds.
  double otherwise = 0;              ///< Reward when it does not.
};

/// A line of another source is skipped, and so is one without an answer where the rule reads it.
/// Else the score "accuracy" is 1 when the rule holds, else 0; with `extract`, "extracted" is 1
/// when something was found. A response on which a pattern takes too much work is an error, as is
/// an answer that is not a number under numeric. INVALID_ARGUMENT names the option that is wrong.
[[nodiscard]] absl::StatusOr<std::unique_ptr<RewardFunction>> CreateRule(
    const RuleOptions& options);

/// Names that RuleOptions::type may have.
[[nodiscard]] const std::vector<std::string>& RuleTypes();

}  // namespace baton::reward

#endif  // BATON_WORKERS_REWARD_RULE_H_
