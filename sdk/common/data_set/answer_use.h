// The parts of a job that get the answers of its data.
#ifndef BATON_SDK_COMMON_DATA_SET_ANSWER_USE_H_
#define BATON_SDK_COMMON_DATA_SET_ANSWER_USE_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "baton/v1/job_spec.pb.h"

namespace baton {

/// A part of a job that gets the answer of a line.
struct AnswerUse {
  enum class Kind {
    kCompares,  ///< A rule: it gives no reward where there is no answer.
    kQuotes,    ///< A judge's question: it cannot be asked without the answer.
    kHandsOn,  ///< A command or a method of the user's own: only its author knows whether it looks.
  };
  Kind kind = Kind::kCompares;
  std::string place;                 ///< "spec.reward.rules[0] (exact_match)".
  std::vector<std::string> sources;  ///< It judges only lines of these; empty: all.

  bool AppliesTo(absl::string_view source) const;
};

/// The parts of a job of kind rl, in the order of the spec. Empty for other kinds.
std::vector<AnswerUse> AnswerUses(const v1::JobSpec& spec, const v1::Dataflow& dataflow);

/// Whether `rule` compares with the answer: all but a regex without "{answer}".
bool ComparesWithAnswer(const v1::RewardRule& rule);

}  // namespace baton

#endif  // BATON_SDK_COMMON_DATA_SET_ANSWER_USE_H_
