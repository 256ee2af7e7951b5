#include "sdk/common/data_set/answer_use.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace baton {
namespace {

constexpr absl::string_view kAnswerMark = "{answer}";       // of patterns and of a judge's template
constexpr absl::string_view kOwnMethod = "compute_reward";  // of Baton's own reward worker

void AddQuote(absl::string_view question, std::string place, std::vector<AnswerUse>* out) {
  if (!absl::StrContains(question, kAnswerMark)) return;
  out->push_back({AnswerUse::Kind::kQuotes, std::move(place), {}});
}

void AddJudges(const v1::JobSpec& spec, const v1::Dataflow& dataflow, std::vector<AnswerUse>* out) {
  AddQuote(spec.judge().template_(), "spec.judge.template", out);
  for (int i = 0; i < dataflow.score_size(); ++i) {
    const auto& options = dataflow.score(i).options().fields();
    const auto question = options.find("template");
    if (dataflow.score(i).role() != "judge" || question == options.end()) continue;
    AddQuote(question->second.string_value(),
             absl::StrCat("spec.dataflow.score[", i, "].options.template"), out);
  }
}

}  // namespace

bool AnswerUse::AppliesTo(absl::string_view source) const {
  return sources.empty() || std::find(sources.begin(), sources.end(), source) != sources.end();
}

bool ComparesWithAnswer(const v1::RewardRule& rule) {
  // A rule of a later release is taken for one that compares.
  return rule.type() != "regex" || absl::StrContains(rule.pattern(), kAnswerMark);
}

std::vector<AnswerUse> AnswerUses(const v1::JobSpec& spec, const v1::Dataflow& dataflow) {
  std::vector<AnswerUse> out;
  if (spec.kind() != v1::JOB_KIND_RL) return out;
  const v1::RewardSpec& reward = spec.reward();
  for (int i = 0; i < reward.rules_size(); ++i) {
    const v1::RewardRule& rule = reward.rules(i);
    if (!ComparesWithAnswer(rule)) continue;
    const auto& sources = rule.when().source();
    out.push_back({AnswerUse::Kind::kCompares,
                   absl::StrCat("spec.reward.rules[", i, "] (", rule.type(), ")"),
                   {sources.begin(), sources.end()}});
  }
  AddJudges(spec, dataflow, &out);
  if (!reward.command().empty()) {
    out.push_back({AnswerUse::Kind::kHandsOn, "spec.reward.command", {}});
  } else if (!reward.method().empty() && reward.method() != kOwnMethod) {
    out.push_back({AnswerUse::Kind::kHandsOn, "spec.reward.method", {}});
  }
  return out;
}

}  // namespace baton
