#include "controller/spec/settings/check_patterns.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "controller/spec/dataflow/role_names.h"
#include "sdk/common/base/regex.h"

namespace baton::controller {
namespace {

void CheckPattern(absl::string_view field, absl::string_view pattern, Violations* out) {
  if (pattern.empty()) return;
  const absl::Status status = Regex::Compile(pattern).status();
  if (!status.ok()) out->Add(field, status.message());
}

void CheckRulePatterns(const std::string& path, const v1::RewardRule& rule, Violations* out) {
  CheckPattern(path + ".extract", rule.extract(), out);
  // Any answer may stand for the mark, so it is checked with a harmless one.
  CheckPattern(path + ".pattern", absl::StrReplaceAll(rule.pattern(), {{"{answer}", "\\Qx\\E"}}),
               out);
  if (rule.type() != "regex" && !rule.pattern().empty()) {
    out->Add(path + ".pattern",
             "only type regex has one; use extract to choose what of the response is judged");
  }
}

}  // namespace

void CheckPatterns(const v1::JobSpec& effective, const v1::Dataflow& dataflow, Violations* out) {
  for (int i = 0; i < effective.reward().rules_size(); ++i) {
    CheckRulePatterns(absl::StrCat("reward.rules[", i, "]"), effective.reward().rules(i), out);
  }
  CheckPattern("judge.verdict", effective.judge().verdict(), out);
  for (int i = 0; i < dataflow.score_size(); ++i) {
    const auto& fields = dataflow.score(i).options().fields();
    const auto verdict = fields.find("verdict");
    if (dataflow.score(i).role() != roles::kJudge || verdict == fields.end()) continue;
    CheckPattern(absl::StrCat("dataflow.score[", i, "].options.verdict"),
                 verdict->second.string_value(), out);
  }
}

}  // namespace baton::controller
