#include "workers/tokenizer/tokens/word_piece.h"

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

std::optional<size_t> AppendUnk(const std::optional<int32_t>& unk_id, std::vector<int32_t>* ids) {
  if (!unk_id.has_value()) return 0;
  ids->push_back(*unk_id);
  return std::nullopt;
}

}  // namespace

WordPiece::WordPiece(const Vocab& vocab, WordPieceOptions options,
                     const std::unordered_set<int32_t>& never_found)
    : options_(std::move(options)) {
  const std::string& prefix = options_.continuing_prefix;
  PrefixTable::Entries begins, continues;
  for (const auto& [text, id] : vocab) {
    if (never_found.count(id) > 0) continue;
    begins.emplace_back(text, id);
    if (absl::StartsWith(text, prefix)) continues.emplace_back(text.substr(prefix.size()), id);
  }
  begins_ = PrefixTable(std::move(begins));
  continues_ = PrefixTable(std::move(continues));
}

std::optional<size_t> WordPiece::Encode(absl::string_view word, std::vector<int32_t>* ids) const {
  if (CountCharacters(word) > options_.max_characters) return AppendUnk(options_.unk_id, ids);
  std::vector<int32_t> pieces;
  for (size_t at = 0; at < word.size();) {
    const auto longest = (at == 0 ? begins_ : continues_).FindLongest(word.substr(at));
    if (!longest.has_value()) return AppendUnk(options_.unk_id, ids);
    pieces.push_back(longest->first);
    at += longest->second;
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
