#include "workers/reward/rule.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "sdk/common/base/regex.h"
#include "sdk/common/base/utf8.h"
#include "workers/reward/last_match.h"

namespace baton::reward {
namespace {

constexpr absl::string_view kAnswerMark = "{answer}";
constexpr char kNumberPattern[] =
    "[-+]?(?:\\d{1,3}(?:,\\d{3})+(?!\\d)|\\d+)(?:\\.\\d+)?(?:[eE][-+]?\\d+)?|[-+]?\\.\\d+";

std::string Quote(absl::string_view text) {
  // \Q…\E takes everything as it is but its own end.
  return absl::StrCat("\\Q", absl::StrReplaceAll(text, {{"\\E", "\\E\\\\E\\Q"}}), "\\E");
}

// A finite number written in decimal, with thousands separators or a leading "$" if need be.
std::optional<double> ParseNumber(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  if (!text.empty() && text[0] == '$') text.remove_prefix(1);
  const std::string digits = absl::StrReplaceAll(text, {{",", ""}});
  const bool plain = std::all_of(digits.begin(), digits.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c)) ||
           absl::StrContains("+-.eE", absl::string_view(&c, 1));
  });
  double value = 0;
  if (!plain || !absl::SimpleAtod(digits, &value) || !std::isfinite(value)) return std::nullopt;
  return value;
}

// Digits without sign and leading zeros when `text` is a whole number, else empty. Longer numbers
// than a double holds exactly are compared by these.
std::string WholeNumber(absl::string_view text) {
  std::string digits = absl::StrReplaceAll(absl::StripAsciiWhitespace(text), {{",", ""}});
  const bool negative = !digits.empty() && digits[0] == '-';
  if (!digits.empty() && (negative || digits[0] == '+')) digits.erase(0, 1);
  const bool whole = !digits.empty() && std::all_of(digits.begin(), digits.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c));
  });
  if (!whole) return "";
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));
  return (negative && digits != "0" ? "-" : "") + digits;
}

class Rule : public RewardFunction {
 public:
  enum class Type { kExactMatch, kNumeric, kRegex };

  Rule(Type type, RuleOptions options, std::optional<Regex> extract, std::optional<Regex> pattern,
       Regex number)
      : type_(type),
        options_(std::move(options)),
        extract_(std::move(extract)),
        pattern_(std::move(pattern)),
        number_(std::move(number)) {}

  absl::StatusOr<RewardResult> Score(const RewardInput& input) override {
    RewardResult result;
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
      text = std::string(absl::StripAsciiWhitespace(text));
      answer = std::string(absl::StripAsciiWhitespace(answer));
    }
    switch (type_) {
      case Type::kExactMatch:
        return options_.ignore_case ? absl::EqualsIgnoreCase(text, answer) : text == answer;
      case Type::kNumeric:
        return SameNumber(text, answer);
      case Type::kRegex:
        return Matches(text, answer);
    }
    return absl::InternalError("rule: unknown type");
  }

  absl::StatusOr<bool> SameNumber(const std::string& text, const std::string& answer) const {
    const std::optional<double> expected = ParseNumber(answer);
    if (!expected.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("numeric: the answer '", answer.substr(0, 100), "' is not a number"));
    }
    BATON_ASSIGN_OR_RETURN(const std::optional<std::string> last, LastMatch(number_, text));
    if (!last.has_value()) return false;
    const std::optional<double> got = ParseNumber(*last);
    if (!got.has_value()) return false;
    constexpr double kExactLimit = 9007199254740992.0;  // 2^53
    if (options_.tolerance < 1 && std::abs(*expected) >= kExactLimit) {
      const std::string whole = WholeNumber(answer);
      if (!whole.empty() && !WholeNumber(*last).empty()) return whole == WholeNumber(*last);
    }
    const double off = std::abs(*got - *expected);
    return off <= options_.tolerance;
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
  const Regex number_;
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
  BATON_ASSIGN_OR_RETURN(Regex number, CompileOption("number", kNumberPattern, false));
  return std::unique_ptr<RewardFunction>(new Rule(static_cast<Rule::Type>(type - types.begin()),
                                                  options, std::move(extract), std::move(pattern),
                                                  std::move(number)));
}

}  // namespace baton::reward
