// White space and letter case as all rules see them: Unicode's, as in patterns.
#ifndef BATON_WORKERS_REWARD_FOLD_TEXT_H_
#define BATON_WORKERS_REWARD_FOLD_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace baton::reward {

/// `text` without the characters of Unicode's White_Space at its ends.
absl::string_view StripSpaces(absl::string_view text);

/// `text` with each character's simple case folding (Unicode's CaseFolding.txt, status C and S),
/// one character for one: É and é are the same, ß and ss are not. `text`: valid UTF-8.
std::string FoldCase(absl::string_view text);

}  // namespace baton::reward

#endif  // BATON_WORKERS_REWARD_FOLD_TEXT_H_
