#include "sdk/common/data_set/answer_use.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace baton {
namespace {

constexpr absl::string_view kAnswerMark = "{answer}";  // of patterns and of a judge's template

}  // namespace

std::string AnswerReader(const v1::JobSpec& spec, const v1::Dataflow& dataflow) {
  if (spec.kind() != v1::JOB_KIND_RL) return "";
  for (int i = 0; i < spec.reward().rules_size(); ++i) {
    const v1::RewardRule& rule = spec.reward().rules(i);
    // A rule of a later release is taken for one that compares.
    if (rule.type() == "regex" && !absl::StrContains(rule.pattern(), kAnswerMark)) continue;
    return absl::StrCat("spec.reward.rules[", i, "] (", rule.type(), ")");
  }
  if (absl::StrContains(spec.judge().template_(), kAnswerMark)) return "spec.judge.template";
  for (int i = 0; i < dataflow.score_size(); ++i) {
    const auto& options = dataflow.score(i).options().fields();
    const auto question = options.find("template");
    if (dataflow.score(i).role() != "judge" || question == options.end()) continue;
    if (absl::StrContains(question->second.string_value(), kAnswerMark)) {
      return absl::StrCat("spec.dataflow.score[", i, "].options.template");
    }
  }
  return "";
}

}  // namespace baton
