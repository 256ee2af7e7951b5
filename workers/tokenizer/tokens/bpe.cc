#include "workers/tokenizer/tokens/bpe.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "sdk/common/base/utf8.h"
#include "workers/tokenizer/steps/byte_level.h"

namespace baton::tokenizer {
namespace {

uint64_t PairKey(int32_t left, int32_t right) {
  return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
}

// A pair that may be joined: the symbol at `position` with its right neighbour.
struct Candidate {
  int32_t rank;
  int32_t position;
  int32_t id;  // of the joined token
};

struct Later {
  bool operator()(const Candidate& a, const Candidate& b) const {
    if (a.rank != b.rank) return a.rank > b.rank;
    return a.position > b.position;
  }
};

}  // namespace

// A doubly linked list in a vector; a joined-away symbol has id -1.
struct Bpe::Symbol {
  int32_t id;
  int32_t previous;
  int32_t next;
};

absl::StatusOr<Bpe> Bpe::Create(const Vocab& vocab, const std::vector<Merge>& merges,
                                const BpeOptions& options) {
  Bpe bpe(options);
  for (int byte = 0; byte < 256; ++byte) {
    if (!options.byte_level && !options.byte_fallback) break;
    const char raw = static_cast<char>(byte);
    const auto it = vocab.find(options.byte_level ? BytesToTokenText(absl::string_view(&raw, 1))
                                                  : absl::StrFormat("<0x%02X>", byte));
    if (it != vocab.end()) bpe.byte_id_[byte] = it->second;
  }
  for (const auto& [text, id] : vocab) {
    const Utf8Char first = ReadUtf8(text);
    if (!options.byte_level && first.kind == Utf8Char::Kind::kValid &&
        first.length == text.size()) {
      bpe.character_id_.emplace(first.code_point, id);
    }
  }
  if (!options.continuing_prefix.empty() || !options.word_suffix.empty()) bpe.affixed_id_ = vocab;
  bpe.merges_.reserve(merges.size());
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [left, right] = merges[rank];
    const size_t prefix = std::min(options.continuing_prefix.size(), right.size());
    const std::string joined = left + right.substr(prefix);
    int32_t ids[3];
    const std::string* const texts[3] = {&left, &right, &joined};
    for (int i = 0; i < 3; ++i) {
      const auto it = vocab.find(*texts[i]);
      if (it == vocab.end()) {
        return absl::InvalidArgumentError(absl::StrCat("merges[", rank, "] ('", left, "', '", right,
                                                       "'): token '", *texts[i],
                                                       "' is not in the vocabulary"));
      }
      ids[i] = it->second;
    }
    if (options.never_joined.count(ids[2]) > 0) continue;
    bpe.merges_[PairKey(ids[0], ids[1])] = {static_cast<int32_t>(rank), ids[2]};
  }
  if (options.ignore_merges) {
    for (const auto& [text, id] : vocab) {
      if (options.never_joined.count(id) > 0) continue;
      auto bytes = options.byte_level ? TokenTextToBytes(text) : text;
      if (bytes.has_value()) bpe.word_to_id_.emplace(*std::move(bytes), id);
    }
  }
  return bpe;
}

std::optional<size_t> Bpe::Encode(absl::string_view word, std::vector<int32_t>* ids) const {
  int64_t pairs_tried = 0;
  return EncodeCounting(word, ids, &pairs_tried);
}

std::optional<size_t> Bpe::EncodeCounting(absl::string_view word, std::vector<int32_t>* ids,
                                          int64_t* pairs_tried) const {
  if (word.empty()) return std::nullopt;
  if (options_.ignore_merges) {
    const auto it = word_to_id_.find(std::string(word));
    if (it != word_to_id_.end()) {
      ids->push_back(it->second);
      return std::nullopt;
    }
  }
  std::vector<int32_t> split;
  if (const auto uncovered = SplitSymbols(word, &split)) return uncovered;
  std::vector<Symbol> symbols;
  symbols.reserve(split.size());
  for (const int32_t id : split) {
    const auto at = static_cast<int32_t>(symbols.size());
    symbols.push_back({id, at - 1, at + 1});
  }
  symbols.back().next = -1;
  if (!merges_.empty()) JoinPairs(&symbols, pairs_tried);
  for (const Symbol& symbol : symbols) {
    if (symbol.id >= 0) ids->push_back(symbol.id);
  }
  return std::nullopt;
}

std::pair<int32_t, size_t> Bpe::ReadSymbol(absl::string_view word, size_t at) const {
  if (options_.byte_level) return {byte_id_[static_cast<unsigned char>(word[at])], 1};
  const Utf8Char c = ReadUtf8(word.substr(at));
  if (c.kind != Utf8Char::Kind::kValid) return {-1, 1};
  if (!affixed_id_.empty()) {
    const bool is_last = at + c.length == word.size();
    const auto affixed = affixed_id_.find(absl::StrCat(at > 0 ? options_.continuing_prefix : "",
                                                       word.substr(at, c.length),
                                                       is_last ? options_.word_suffix : ""));
    return {affixed == affixed_id_.end() ? -1 : affixed->second, c.length};
  }
  const auto it = character_id_.find(c.code_point);
  return {it == character_id_.end() ? -1 : it->second, c.length};
}

std::optional<size_t> Bpe::SplitSymbols(absl::string_view word, std::vector<int32_t>* ids) const {
  ids->reserve(word.size());
  const auto byte_token = [this](char c) { return byte_id_[static_cast<unsigned char>(c)]; };
  // An unk waits for the next symbol with a token of its own, past bytes too, as in the reference.
  bool unk_waits = false;
  for (size_t i = 0; i < word.size();) {
    const auto [id, length] = ReadSymbol(word, i);
    const absl::string_view symbol = word.substr(i, length);
    i += length;
    if (id >= 0) {
      if (std::exchange(unk_waits, false)) ids->push_back(*options_.unk_id);
      ids->push_back(id);
    } else if (options_.byte_fallback && std::all_of(symbol.begin(), symbol.end(),
                                                     [&](char c) { return byte_token(c) >= 0; })) {
      for (const char c : symbol) ids->push_back(byte_token(c));
    } else if (!options_.unk_id.has_value()) {
      return i - length;
    } else {
      if (unk_waits && !options_.fuse_unk) {
        ids->push_back(*options_.unk_id);
      }
      unk_waits = true;
    }
  }
  if (unk_waits) ids->push_back(*options_.unk_id);
  return std::nullopt;
}

const Bpe::RankedMerge* Bpe::FindMerge(int32_t left, int32_t right) const {
  const auto it = merges_.find(PairKey(left, right));
  return it == merges_.end() ? nullptr : &it->second;
}

void Bpe::JoinPairs(std::vector<Symbol>* symbols_out, int64_t* pairs_tried) const {
  std::vector<Symbol>& symbols = *symbols_out;
  std::priority_queue<Candidate, std::vector<Candidate>, Later> queue;
  const auto offer = [&](int32_t left) {
    if (left < 0 || symbols[left].next < 0) return;
    ++*pairs_tried;
    const RankedMerge* merge = FindMerge(symbols[left].id, symbols[symbols[left].next].id);
    if (merge != nullptr) queue.push({merge->rank, left, merge->id});
  };
  for (size_t i = 0; i + 1 < symbols.size(); ++i) offer(static_cast<int32_t>(i));
  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    Symbol& left = symbols[top.position];
    if (left.id < 0 || left.next < 0) continue;
    Symbol& right = symbols[left.next];
    ++*pairs_tried;
    // The pair may have changed since it was queued.
    const RankedMerge* merge = FindMerge(left.id, right.id);
    if (merge == nullptr || merge->id != top.id) continue;
    left.id = top.id;
    right.id = -1;
    left.next = right.next;
    if (left.next >= 0) symbols[left.next].previous = top.position;
    offer(left.previous);
    offer(top.position);
  }
}

}  // namespace baton::tokenizer
