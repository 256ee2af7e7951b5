#include "workers/tokenizer/bpe.h"

#include <queue>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "workers/tokenizer/byte_level.h"

namespace baton::engine {
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
    return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
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
  Bpe bpe;
  bpe.options_ = options;
  for (int byte = 0; byte < 256; ++byte) {
    const char raw = static_cast<char>(byte);
    const auto it = vocab.find(BytesToTokenText(absl::string_view(&raw, 1)));
    if (it != vocab.end()) bpe.byte_id_[byte] = it->second;
  }
  bpe.merges_.reserve(merges.size());
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [left, right] = merges[rank];
    const std::string joined = left + right;
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
    bpe.merges_[PairKey(ids[0], ids[1])] = {static_cast<int32_t>(rank), ids[2]};
  }
  if (options.ignore_merges) {
    for (const auto& [text, id] : vocab) {
      if (auto bytes = TokenTextToBytes(text)) bpe.word_to_id_.emplace(*std::move(bytes), id);
    }
  }
  return bpe;
}

std::optional<size_t> Bpe::Encode(absl::string_view word, std::vector<int32_t>* ids) const {
  if (word.empty()) return std::nullopt;
  if (options_.ignore_merges) {
    const auto it = word_to_id_.find(std::string(word));
    if (it != word_to_id_.end()) {
      ids->push_back(it->second);
      return std::nullopt;
    }
  }
  std::vector<Symbol> symbols;
  if (const auto uncovered = SplitBytes(word, &symbols)) return uncovered;
  if (!merges_.empty()) JoinPairs(&symbols);
  for (const Symbol& symbol : symbols) {
    if (symbol.id >= 0) ids->push_back(symbol.id);
  }
  return std::nullopt;
}

std::optional<size_t> Bpe::SplitBytes(absl::string_view word, std::vector<Symbol>* symbols) const {
  symbols->reserve(word.size());
  bool after_unk = false;
  for (size_t i = 0; i < word.size(); ++i) {
    int32_t id = byte_id_[static_cast<unsigned char>(word[i])];
    const bool unknown = id < 0;
    if (unknown) {
      if (!options_.unk_id.has_value()) return i;
      if (after_unk && options_.fuse_unk) continue;
      id = *options_.unk_id;
    }
    after_unk = unknown;
    const auto at = static_cast<int32_t>(symbols->size());
    symbols->push_back({id, at - 1, at + 1});
  }
  symbols->back().next = -1;
  return std::nullopt;
}

const Bpe::RankedMerge* Bpe::FindMerge(int32_t left, int32_t right) const {
  const auto it = merges_.find(PairKey(left, right));
  return it == merges_.end() ? nullptr : &it->second;
}

void Bpe::JoinPairs(std::vector<Symbol>* symbols_out) const {
  std::vector<Symbol>& symbols = *symbols_out;
  std::priority_queue<Candidate, std::vector<Candidate>, Later> queue;
  const auto offer = [&](int32_t left) {
    if (left < 0 || symbols[left].next < 0) return;
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

}  // namespace baton::engine
