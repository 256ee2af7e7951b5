#include "workers/tokenizer/tokens/word_piece.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "sdk/common/base/utf8.h"

namespace baton::tokenizer {
namespace {

// Characters, and bytes outside of one.
int64_t CountCharacters(absl::string_view text) {
  int64_t count = 0;
  for (; !text.empty(); ++count) text.remove_prefix(ReadUtf8(text).length);
  return count;
}

// The longest beginning of `text` that `tokens` has: its id and length; -1: none.
std::pair<int32_t, size_t> LongestToken(const Vocab& tokens, absl::string_view text,
                                        size_t longest) {
  std::string part(text.substr(0, longest));
  for (; !part.empty(); part.pop_back()) {
    if (const auto it = tokens.find(part); it != tokens.end()) return {it->second, part.size()};
  }
  return {-1, 0};
}

std::optional<size_t> AppendUnk(const std::optional<int32_t>& unk_id, std::vector<int32_t>* ids) {
  if (!unk_id.has_value()) return 0;
  ids->push_back(*unk_id);
  return std::nullopt;
}

}  // namespace

WordPiece::WordPiece(Vocab vocab, WordPieceOptions options,
                     const std::unordered_set<int32_t>& never_found)
    : options_(std::move(options)) {
  const std::string& prefix = options_.continuing_prefix;
  for (const auto& [text, id] : vocab) {
    if (never_found.count(id) > 0) continue;
    longest_ = std::max(longest_, text.size());
    if (absl::StartsWith(text, prefix)) continues_.emplace(text.substr(prefix.size()), id);
    begins_.emplace(text, id);
  }
}

std::optional<size_t> WordPiece::Encode(absl::string_view word, std::vector<int32_t>* ids) const {
  if (CountCharacters(word) > options_.max_characters) return AppendUnk(options_.unk_id, ids);
  std::vector<int32_t> pieces;
  for (size_t at = 0; at < word.size();) {
    const auto [id, length] =
        LongestToken(at == 0 ? begins_ : continues_, word.substr(at), longest_);
    if (id < 0) return AppendUnk(options_.unk_id, ids);
    pieces.push_back(id);
    at += length;
  }
  ids->insert(ids->end(), pieces.begin(), pieces.end());
  return std::nullopt;
}

WordLevel::WordLevel(Vocab vocab, std::optional<int32_t> unk_id,
                     const std::unordered_set<int32_t>& never_found)
    : unk_id_(unk_id) {
  for (auto& [text, id] : vocab) {
    if (never_found.count(id) == 0) vocab_.emplace(text, id);
  }
}

std::optional<size_t> WordLevel::Encode(absl::string_view word, std::vector<int32_t>* ids) const {
  const auto it = vocab_.find(std::string(word));
  if (it == vocab_.end()) return AppendUnk(unk_id_, ids);
  ids->push_back(it->second);
  return std::nullopt;
}

}  // namespace baton::tokenizer
