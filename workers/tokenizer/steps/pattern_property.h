// The names of Unicode's properties in Oniguruma's `\\p{…}`, as PCRE2 has them.
#ifndef BATON_WORKERS_TOKENIZER_STEPS_PATTERN_PROPERTY_H_
#define BATON_WORKERS_TOKENIZER_STEPS_PATTERN_PROPERTY_H_

#include <string>

#include "absl/strings/string_view.h"

namespace baton::tokenizer {

/// The property that PCRE2 means where Oniguruma has `name` ("Letter" is "L"). A script is that of
/// a character itself: PCRE2's plain "Han" would also take punctuation that Chinese shares with
/// other scripts. A name that is not known stays as it is, for PCRE2 to judge.
[[nodiscard]] std::string PropertyOfPcre2(absl::string_view name);

}  // namespace baton::tokenizer

#endif  // BATON_WORKERS_TOKENIZER_STEPS_PATTERN_PROPERTY_H_
