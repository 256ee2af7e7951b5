#include "controller/spec/check_patterns.h"

#include <cmath>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "controller/spec/role_names.h"
#include "sdk/base/regex.h"

namespace baton::controller {
namespace {

class PatternChecker {
 public:
  explicit PatternChecker(std::vector<v1::FieldViolation>* out) : out_(out) {}

  void Fail(absl::string_view field, absl::string_view description) {
    v1::FieldViolation& violation = out_->emplace_back();
    violation.set_field(absl::StrCat("spec.", field));
    violation.set_description(std::string(description));
  }
  void Pattern(absl::string_view field, absl::string_view pattern) {
    if (pattern.empty()) return;
    const absl::Status status = Regex::Compile(pattern).status();
    if (!status.ok()) Fail(field, status.message());
  }
  void Finite(absl::string_view field, double value) {
    if (!std::isfinite(value)) Fail(field, absl::StrCat(value, " is not a finite number"));
  }

 private:
  std::vector<v1::FieldViolation>* const out_;
};

void CheckRulePatterns(const std::string& path, const v1::RewardRule& rule, PatternChecker& check) {
  check.Pattern(path + ".extract", rule.extract());
  // Any answer may stand for the mark, so it is checked with a harmless one.
  check.Pattern(path + ".pattern", absl::StrReplaceAll(rule.pattern(), {{"{answer}", "\\Qx\\E"}}));
  if (rule.type() != "regex" && !rule.pattern().empty()) {
    check.Fail(path + ".pattern",
               "only type regex has one; use extract to choose what of the response is judged");
  }
  if (!(rule.tolerance() >= 0) || !std::isfinite(rule.tolerance())) {
    check.Fail(path + ".tolerance", absl::StrCat(rule.tolerance(), " is not a number >= 0"));
  }
  check.Finite(path + ".reward", rule.reward());
  check.Finite(path + ".otherwise", rule.otherwise());
  check.Finite(path + ".weight", rule.weight());
}

}  // namespace

void CheckPatterns(const v1::JobSpec& effective, const v1::Dataflow& dataflow,
                   std::vector<v1::FieldViolation>* out) {
  PatternChecker check(out);
  for (int i = 0; i < effective.reward().rules_size(); ++i) {
    CheckRulePatterns(absl::StrCat("reward.rules[", i, "]"), effective.reward().rules(i), check);
  }
  check.Pattern("judge.verdict", effective.judge().verdict());
  for (const auto& [verdict, worth] : effective.judge().verdicts()) {
    check.Finite(absl::StrCat("judge.verdicts.", verdict), worth);
  }
  for (int i = 0; i < dataflow.score_size(); ++i) {
    const auto& fields = dataflow.score(i).options().fields();
    const auto verdict = fields.find("verdict");
    if (dataflow.score(i).role() != roles::kJudge || verdict == fields.end()) continue;
    check.Pattern(absl::StrCat("dataflow.score[", i, "].options.verdict"),
                  verdict->second.string_value());
  }
}

}  // namespace baton::controller
