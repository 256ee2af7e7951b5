// Unicode normalization form C (UAX #15): canonical decomposition, canonical ordering, canonical
// composition, by utf8proc. Characters that later versions of Unicode than its own added are left
// alone.
#ifndef BATON_WORKERS_TOKENIZER_TOKENS_NFC_H_
#define BATON_WORKERS_TOKENIZER_TOKENS_NFC_H_

#include <string>

#include "absl/strings/string_view.h"

namespace baton::tokenizer {

/// `text` must be valid UTF-8; other bytes come back as they are. The time is n log n. Pure; any
/// thread.
[[nodiscard]] std::string NormalizeNfc(absl::string_view text);

}  // namespace baton::tokenizer

#endif  // BATON_WORKERS_TOKENIZER_TOKENS_NFC_H_
