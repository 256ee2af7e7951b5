#include "workers/reward/rule.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "sdk/common/base/regex.h"
#include "sdk/common/base/utf8.h"
#include "workers/reward/fold_text.h"
#include "workers/reward/last_match.h"
#include "workers/reward/numbers/exact_number.h"
#include "workers/reward/numbers/read_number.h"

namespace baton::reward {
namespace {

constexpr absl::string_view kAnswerMark = "{answer}";

std::string Quote(absl::string_view text) {
  // \Q…\E takes everything as it is but its own end.
  return absl::StrCat("\\Q", absl::StrReplaceAll(text, {{"\\E", "\\E\\\\E\\Q"}}), "\\E");
}

// For people: why a number does not count, where that is not plain from reading both.
std::string WhyUnequal(const NumberReading& got, const NumberReading& expected,
                       bool percent_is_hundredths) {
  using Kind = NumberReading::Kind;
  if (got.kind == Kind::kNone) return "the response has no number";
  if (got.kind == Kind::kAmbiguous) return absl::StrCat("ambiguous: ", got.why);
  if (got.kind != expected.kind) {
    return got.kind == Kind::kRange ? "the response has a range, the answer is one number"
                                    : "the answer is a range, the response has one number";
  }
  if (got.percent == expected.percent) return "";
  return absl::StrCat("only one of both has a percent sign, and 50% is ",
                      percent_is_hundredths ? "0.5" : "50", " (option percent)");
}

class Rule : public RewardFunction {
 public:
  enum class Type { kExactMatch, kNumeric, kRegex };

  Rule(Type type, RuleOptions options, std::optional<Regex> extract, std::optional<Regex> pattern)
      : type_(type),
        options_(std::move(options)),
        extract_(std::move(extract)),
        pattern_(std::move(pattern)) {}

  absl::StatusOr<RewardResult> Score(const RewardInput& input) override {
    RewardResult result;
    result.skipped = !AppliesTo(input.source) || (input.unanswered && ReadsAnswer());
    if (result.skipped) {
      if (AppliesTo(input.source)) result.note = "the line has no answer to compare with";
      return result;
    }
    auto holds = Judge(input, &result);
    if (!holds.ok()) {
      result = RewardResult();
      result.error = ReplaceInvalidUtf8(holds.status().message());
      return result;
    }
    result.reward = *holds ? options_.reward : options_.otherwise;
    result.scores["accuracy"] = *holds ? 1 : 0;
    return result;
  }

 private:
  bool AppliesTo(const std::string& source) const {
    return options_.sources.empty() || std::find(options_.sources.begin(), options_.sources.end(),
                                                 source) != options_.sources.end();
  }
  bool ReadsAnswer() const { return type_ != Type::kRegex || !pattern_.has_value(); }

  absl::StatusOr<bool> Judge(const RewardInput& input, RewardResult* result) const {
    std::string text = ReplaceInvalidUtf8(input.response);
    if (extract_.has_value()) {
      auto found = LastMatch(*extract_, text);
      if (!found.ok()) return Annotate(found.status(), "extract");
      result->scores["extracted"] = found->has_value() ? 1 : 0;
      if (!found->has_value()) return false;
      text = **std::move(found);
    }
    std::string answer = ReplaceInvalidUtf8(input.answer);
    if (options_.strip) {
      text = std::string(StripSpaces(text));
      answer = std::string(StripSpaces(answer));
    }
    switch (type_) {
      case Type::kExactMatch:
        return options_.ignore_case ? FoldCase(text) == FoldCase(answer) : text == answer;
      case Type::kNumeric:
        return SameNumber(text, answer, result);
      case Type::kRegex:
        return Matches(text, answer);
    }
    return absl::InternalError("rule: unknown type");
  }

  absl::StatusOr<bool> SameNumber(const std::string& text, const std::string& answer,
                                  RewardResult* result) const {
    NumberStyle style;
    style.percent_is_hundredths = options_.percent_is_hundredths;
    const NumberReading expected = ReadWholeNumber(answer, style);
    if (expected.kind == NumberReading::Kind::kNone ||
        expected.kind == NumberReading::Kind::kAmbiguous) {
      return absl::InvalidArgumentError(
          absl::StrCat("numeric: the answer '", answer.substr(0, 100), "' is not a number",
                       expected.why.empty() ? "" : ": ", expected.why));
    }
    const NumberReading got = ReadLastNumber(text, style);
    result->scores["ambiguous"] = got.kind == NumberReading::Kind::kAmbiguous ? 1 : 0;
    const bool ranges = got.kind == NumberReading::Kind::kRange;
    const bool same = got.kind == expected.kind &&
                      AreNear(got.value, expected.value, options_.tolerance) &&
                      (!ranges || AreNear(got.upper, expected.upper, options_.tolerance));
    if (!same) result->note = WhyUnequal(got, expected, options_.percent_is_hundredths);
    return same;
  }

  absl::StatusOr<bool> Matches(const std::string& text, const std::string& answer) const {
    if (pattern_.has_value()) return RegexMatcher(*pattern_, text).Find(0);
    BATON_ASSIGN_OR_RETURN(
        const Regex regex,
        CompileOption("pattern",
                      absl::StrReplaceAll(options_.pattern, {{kAnswerMark, Quote(answer)}}),
                      options_.ignore_case));
    return RegexMatcher(regex, text).Find(0);
  }

  // Constant after construction.
  const Type type_;
  const RuleOptions options_;
  const std::optional<Regex> extract_;
  const std::optional<Regex> pattern_;  // none: it holds the answer and is compiled for each
};

absl::Status OptionError(absl::string_view option, absl::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat(option, ": ", text));
}

}  // namespace

const std::vector<std::string>& RuleTypes() {
  static const auto* const types = new std::vector<std::string>{"exact_match", "numeric", "regex"};
  return *types;
}

absl::StatusOr<std::unique_ptr<RewardFunction>> CreateRule(const RuleOptions& options) {
  const auto& types = RuleTypes();
  const auto type = std::find(types.begin(), types.end(), options.type);
  if (type == types.end()) {
    return OptionError(
        "type", absl::StrCat("'", options.type, "' is not one of ", absl::StrJoin(types, ", ")));
  }
  if (!(options.tolerance >= 0) || !std::isfinite(options.tolerance)) {
    return OptionError("tolerance", absl::StrCat(options.tolerance, " is not a number >= 0"));
  }
  if (!std::isfinite(options.reward)) return OptionError("reward", "it is not finite");
  if (!std::isfinite(options.otherwise)) return OptionError("otherwise", "it is not finite");
  const bool is_regex = options.type == "regex";
  if (is_regex == options.pattern.empty()) {
    return OptionError("pattern", is_regex ? "type regex needs one"
                                           : "only type regex has one; use extract to choose what "
                                             "of the response is judged");
  }
  std::optional<Regex> extract, pattern;
  if (!options.extract.empty()) {
    BATON_ASSIGN_OR_RETURN(extract, CompileOption("extract", options.extract, options.ignore_case));
  }
  if (is_regex) {
    // With the answer's mark it is checked now, with a harmless answer, and compiled for each.
    const bool with_answer = absl::StrContains(options.pattern, kAnswerMark);
    BATON_ASSIGN_OR_RETURN(
        pattern,
        CompileOption("pattern", absl::StrReplaceAll(options.pattern, {{kAnswerMark, Quote("x")}}),
                      options.ignore_case));
    if (with_answer) pattern.reset();
  }
  return std::unique_ptr<RewardFunction>(new Rule(static_cast<Rule::Type>(type - types.begin()),
                                                  options, std::move(extract), std::move(pattern)));
}

}  // namespace baton::reward
