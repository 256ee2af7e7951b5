// The question to a language model about a response, and the value of its answer.
#ifndef BATON_WORKERS_REWARD_VERDICT_H_
#define BATON_WORKERS_REWARD_VERDICT_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "sdk/common/base/regex.h"

namespace baton::reward {

struct VerdictOptions {
  /// {prompt}, {response}, {answer} and {prompt_suffix} are replaced, all at once.
  std::string question;
  /// PCRE2, ignoring case: the first group (without groups: all) of its LAST match in the judgement
  /// is the verdict.
  std::string pattern;
  /// The value of a verdict, ignoring case and white space at its ends. Empty: it is a number.
  std::map<std::string, double> worth;
  double neutral = 0;  ///< Value of a judgement without a verdict that can be read.
};

/// Immutable; any thread.
class Verdict {
 public:
  /// INVALID_ARGUMENT names the option: an empty question or pattern, a pattern that does not
  /// compile, a number that is not finite.
  static absl::StatusOr<std::unique_ptr<Verdict>> Create(const VerdictOptions& options);

  /// A part of a question.
  struct QuestionPart {
    std::string text;
    bool is_template = false;  ///< The template's own text; else what replaces a name.
  };
  /// The parts, in order.
  std::vector<QuestionPart> Question(absl::string_view prompt, absl::string_view response,
                                     absl::string_view answer,
                                     absl::string_view prompt_suffix = "") const;

  struct Reading {
    double worth = 0;
    bool readable = false;  ///< False: `worth` is neutral.
  };
  /// `judgement`: any bytes.
  Reading Read(absl::string_view judgement) const;
  Reading Unreadable() const { return {options_.neutral, false}; }

 private:
  Verdict(VerdictOptions options, Regex pattern);

  const VerdictOptions options_;
  const Regex pattern_;
  std::map<std::string, double> worth_;  ///< By lower-case verdict.
};

}  // namespace baton::reward

#endif  // BATON_WORKERS_REWARD_VERDICT_H_
