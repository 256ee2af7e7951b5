#include "workers/reward/last_match.h"

#include <algorithm>

#include "sdk/common/base/status_macros.h"
#include "sdk/common/base/utf8.h"

namespace baton::reward {
namespace {

constexpr uint32_t kMatchLimit = 1'000'000;

}  // namespace

absl::StatusOr<Regex> CompileOption(absl::string_view option, absl::string_view pattern,
                                    bool ignore_case) {
  RegexOptions options;
  options.ignore_case = ignore_case;
  options.match_limit = kMatchLimit;
  auto regex = Regex::Compile(pattern, options);
  if (!regex.ok()) return Annotate(regex.status(), option);
  return regex;
}

absl::StatusOr<std::optional<std::string>> LastMatch(const Regex& regex, absl::string_view text) {
  RegexMatcher matcher(regex, text);
  std::optional<std::string> last;
  for (size_t from = 0; from <= text.size();) {
    BATON_ASSIGN_OR_RETURN(const bool found, matcher.Find(from));
    if (!found) break;
    const auto group = matcher.group(regex.group_count() > 0 ? 1 : 0);
    if (group.has_value()) last = std::string(*group);
    const bool moved = matcher.end() > from;
    from = moved ? matcher.end() : from + std::max<size_t>(1, ReadUtf8(text.substr(from)).length);
  }
  return last;
}

}  // namespace baton::reward
