// GPT-2's byte alphabet: each byte has one printable character, so that a vocabulary of byte
// strings can be written as text. Printable bytes of Latin-1 stand for themselves; the other 68
// are U+0100, U+0101, … in byte order (a space is U+0120 "Ġ").
// Source: Radford et al. 2019, `bytes_to_unicode` in openai/gpt-2 encoder.py.
#ifndef BATON_WORKERS_TOKENIZER_STEPS_BYTE_LEVEL_H_
#define BATON_WORKERS_TOKENIZER_STEPS_BYTE_LEVEL_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace baton::tokenizer {

/// Bytes -> the text that names them in a vocabulary (UTF-8).
[[nodiscard]] std::string BytesToTokenText(absl::string_view bytes);

/// The reverse; nullopt when `text` holds a character outside the alphabet.
[[nodiscard]] std::optional<std::string> TokenTextToBytes(absl::string_view text);

}  // namespace baton::tokenizer

#endif  // BATON_WORKERS_TOKENIZER_STEPS_BYTE_LEVEL_H_
