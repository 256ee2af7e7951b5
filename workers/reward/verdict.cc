#include "workers/reward/verdict.h"

#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/base/utf8.h"
#include "workers/reward/fold_text.h"
#include "workers/reward/last_match.h"

namespace baton::reward {
namespace {

std::string Plain(absl::string_view verdict) { return FoldCase(StripSpaces(verdict)); }

}  // namespace

Verdict::Verdict(VerdictOptions options, Regex pattern)
    : options_(std::move(options)), pattern_(std::move(pattern)) {
  for (const auto& [verdict, worth] : options_.worth) worth_[Plain(verdict)] = worth;
}

absl::StatusOr<std::unique_ptr<Verdict>> Verdict::Create(const VerdictOptions& options) {
  if (options.question.empty()) {
    return absl::InvalidArgumentError(
        "template: is empty; say what the judge is asked, with {prompt}, {response}, {answer}");
  }
  if (options.pattern.empty()) {
    return absl::InvalidArgumentError(
        "verdict: is empty; give a pattern whose first group is the verdict");
  }
  BATON_ASSIGN_OR_RETURN(Regex pattern,
                         CompileOption("verdict", options.pattern, /*ignore_case=*/true));
  for (const auto& [verdict, worth] : options.worth) {
    if (!std::isfinite(worth)) {
      return absl::InvalidArgumentError(absl::StrCat("verdicts.", verdict, ": it is not finite"));
    }
  }
  if (!std::isfinite(options.neutral)) {
    return absl::InvalidArgumentError("neutral: it is not finite");
  }
  return std::unique_ptr<Verdict>(new Verdict(options, std::move(pattern)));
}

std::vector<Verdict::QuestionPart> Verdict::Question(absl::string_view prompt,
                                                     absl::string_view response,
                                                     absl::string_view answer,
                                                     absl::string_view prompt_suffix) const {
  const std::pair<absl::string_view, absl::string_view> names[] = {
      {"{prompt}", prompt},
      {"{response}", response},
      {"{answer}", answer},
      {"{prompt_suffix}", prompt_suffix}};
  std::vector<QuestionPart> parts;
  absl::string_view rest = options_.question;
  while (!rest.empty()) {
    size_t first = rest.size(), length = 0;
    absl::string_view content;
    for (const auto& [name, value] : names) {
      const size_t at = rest.find(name);
      if (at >= first) continue;
      first = at;
      length = name.size();
      content = value;
    }
    if (first > 0) parts.push_back({std::string(rest.substr(0, first)), true});
    if (!content.empty()) parts.push_back({std::string(content), false});
    rest.remove_prefix(first + length);
  }
  return parts;
}

Verdict::Reading Verdict::Read(absl::string_view judgement) const {
  const auto found = LastMatch(pattern_, ReplaceInvalidUtf8(judgement));
  if (!found.ok() || !found->has_value()) return Unreadable();
  if (!worth_.empty()) {
    const auto worth = worth_.find(Plain(**found));
    return worth == worth_.end() ? Unreadable() : Reading{worth->second, true};
  }
  double number = 0;
  const bool read = absl::SimpleAtod(StripSpaces(**found), &number);
  return read && std::isfinite(number) ? Reading{number, true} : Unreadable();
}

}  // namespace baton::reward
