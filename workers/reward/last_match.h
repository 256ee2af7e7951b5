// The part of a text that a pattern of the user's own picks out.
#ifndef BATON_WORKERS_REWARD_LAST_MATCH_H_
#define BATON_WORKERS_REWARD_LAST_MATCH_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "sdk/common/base/regex.h"

namespace baton::reward {

/// PCRE2 with a limit on its work, so that no response can hold a thread. Errors name `option`.
absl::StatusOr<Regex> CompileOption(absl::string_view option, absl::string_view pattern,
                                    bool ignore_case);

/// The last match of `regex`: its first group, or all of it when there are no groups. `text` is
/// valid UTF-8.
absl::StatusOr<std::optional<std::string>> LastMatch(const Regex& regex, absl::string_view text);

}  // namespace baton::reward

#endif  // BATON_WORKERS_REWARD_LAST_MATCH_H_
