// A tokenizer for a model that is trained from nothing: one token per character of an alphabet.
//
// It is a byte-level BPE without merges whose pre-tokenizer makes every character a word
// (ignore_merges then finds the character's token), so Tokenizer::Load and Python's
// transformers.PreTrainedTokenizerFast both read it. Ids: special tokens first (pad, eos, bos,
// unk, extra; those that are named), then the characters in the alphabet's order.
#ifndef BATON_WORKERS_TOKENIZER_TOKENS_CHARACTER_TOKENIZER_H_
#define BATON_WORKERS_TOKENIZER_TOKENS_CHARACTER_TOKENIZER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton::tokenizer {

/// An empty name: no such token. With unk, a character outside the alphabet becomes one unk per
/// byte; without it, Encode is an error that names the character.
struct CharacterTokenizerOptions {
  std::string pad_token = "<pad>";
  std::string eos_token = "<eos>";
  std::string bos_token;
  std::string unk_token;
  std::vector<std::string> extra_special_tokens;
};

struct CharacterTokenizerFiles {
  std::string tokenizer_json;
  std::string tokenizer_config_json;
};

/// INVALID_ARGUMENT for an alphabet that is empty, not UTF-8 or names a character twice, and for a
/// special token that is named twice or is a character of the alphabet.
[[nodiscard]] absl::StatusOr<CharacterTokenizerFiles> MakeCharacterTokenizer(
    absl::string_view alphabet, const CharacterTokenizerOptions& options = {});

}  // namespace baton::tokenizer

#endif  // BATON_WORKERS_TOKENIZER_TOKENS_CHARACTER_TOKENIZER_H_
