#include "controller/spec/settings/check_patterns.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "controller/spec/dataflow/role_names.h"
#include "controller/spec/settings/impossible_pattern.h"
#include "sdk/common/base/regex.h"

namespace baton::controller {
namespace {

// A pattern of the spec, and what is known of the texts that it is matched against.
struct NamedPattern {
  std::string field;
  std::string pattern;
  JudgedText text;
};

// What is known of the responses that rules judge.
JudgedText TextsOf(const v1::JobSpec& spec, const v1::RewardRule& rule) {
  JudgedText text;
  text.ignore_case = rule.ignore_case();
  if (!spec.model().has_init()) return text;
  text.characters = spec.model().init().characters();  // a token is one of these
  text.most_characters = spec.data().max_response_length();
  return text;
}

std::vector<NamedPattern> PatternsOf(const v1::JobSpec& effective, const v1::Dataflow& dataflow) {
  std::vector<NamedPattern> out;
  for (int i = 0; i < effective.reward().rules_size(); ++i) {
    const v1::RewardRule& rule = effective.reward().rules(i);
    const std::string path = absl::StrCat("reward.rules[", i, "]");
    JudgedText text = TextsOf(effective, rule);
    out.push_back({path + ".extract", rule.extract(), text});
    text.stripped = rule.strip();
    out.push_back({path + ".pattern", rule.pattern(), text});
  }
  JudgedText judgement;
  judgement.ignore_case = true;
  out.push_back({"judge.verdict", effective.judge().verdict(), judgement});
  for (int i = 0; i < dataflow.score_size(); ++i) {
    const auto& fields = dataflow.score(i).options().fields();
    const auto verdict = fields.find("verdict");
    if (dataflow.score(i).role() != roles::kJudge || verdict == fields.end()) continue;
    out.push_back({absl::StrCat("dataflow.score[", i, "].options.verdict"),
                   verdict->second.string_value(), judgement});
  }
  return out;
}

// The problem of a pattern that does not compile; "": it does. Any answer may stand for the mark,
// so it is compiled with a harmless one.
std::string CompileProblem(absl::string_view pattern) {
  if (pattern.empty()) return "";  // there is none
  const auto regex = Regex::Compile(absl::StrReplaceAll(pattern, {{"{answer}", "\\Qx\\E"}}));
  return std::string(regex.status().message());
}

}  // namespace

void CheckPatterns(const v1::JobSpec& effective, const v1::Dataflow& dataflow, Violations* out) {
  for (const NamedPattern& named : PatternsOf(effective, dataflow)) {
    const std::string problem = CompileProblem(named.pattern);
    if (!problem.empty()) out->Add(named.field, problem);
  }
  for (int i = 0; i < effective.reward().rules_size(); ++i) {
    const v1::RewardRule& rule = effective.reward().rules(i);
    if (rule.type() == "regex" || rule.pattern().empty()) continue;
    out->Add(absl::StrCat("reward.rules[", i, "].pattern"),
             "only type regex has one; use extract to choose what of the response is judged");
  }
}

void CheckMatches(const v1::JobSpec& effective, const v1::Dataflow& dataflow, Violations* out) {
  for (const NamedPattern& named : PatternsOf(effective, dataflow)) {
    if (named.pattern.empty() || !CompileProblem(named.pattern).empty()) continue;
    const std::string why = WhyNeverMatches(named.pattern, named.text);
    if (why.empty()) continue;
    out->Add(named.field, absl::StrCat("'", named.pattern, "' never matches: ", why));
  }
}

}  // namespace baton::controller
