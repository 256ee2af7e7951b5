// The tokens of all responses to one prompt, in pages. Private to the tree cache.
#ifndef BATON_WORKERS_ROLLOUT_TREE_CACHE_TOKEN_TEXT_H_
#define BATON_WORKERS_ROLLOUT_TREE_CACHE_TOKEN_TEXT_H_

#include <cstdint>
#include <limits>

#include "workers/rollout/tree_cache/arena.h"

namespace baton::rollout {

/// Marks the place where a text goes on, but has no token yet.
constexpr int32_t kNoToken = -1;
/// Follows the last token of a response. No token of a response has this value.
constexpr int32_t kEndToken = std::numeric_limits<int32_t>::max();
/// May stand before the first token of a response. To a tree it is a token like others.
constexpr int32_t kStartToken = kEndToken - 1;

/// Several responses grow at once, so each is a chain of pages: kPageTokens tokens, and the index
/// of the next page. A position names one token of one response; it never moves. One thread at a
/// time.
class TokenText {
 public:
  static constexpr uint32_t kPageTokens = 63;

  /// A page without tokens. Returns its index.
  uint32_t AddPage() {
    const uint32_t first = slots_.Extend(kPageSlots);
    for (uint32_t i = 0; i < kPageSlots; ++i) slots_[first + i] = kNoToken;
    return first / kPageSlots;
  }
  /// The page `next` follows `page`.
  void Chain(uint32_t page, uint32_t next) {
    slots_[page * kPageSlots + kPageTokens] = static_cast<int32_t>(next);
  }
  static uint32_t Position(uint32_t page, uint32_t offset) { return page * kPageSlots + offset; }

  /// The position `count` tokens behind `position`. If the text ends before it, or exactly there
  /// with a full page, this is the slot behind the last page's tokens: At() has kNoToken there.
  uint32_t Advance(uint32_t position, uint32_t count) const {
    uint32_t offset = position % kPageSlots + count;
    uint32_t page = position / kPageSlots;
    while (offset >= kPageTokens) {
      const int32_t next = slots_[page * kPageSlots + kPageTokens];
      if (next == kNoToken) return page * kPageSlots + kPageTokens;
      page = static_cast<uint32_t>(next);
      offset -= kPageTokens;
    }
    return page * kPageSlots + offset;
  }

  /// The token, kEndToken, or kNoToken.
  int32_t At(uint32_t position) const {
    return position % kPageSlots == kPageTokens ? kNoToken : slots_[position];
  }
  void Set(uint32_t position, int32_t token) { slots_[position] = token; }
  void Prefetch(uint32_t position) const { __builtin_prefetch(&slots_[position]); }

  uint32_t slots() const { return slots_.size(); }
  int64_t capacity_bytes() const { return slots_.capacity_bytes(); }

 private:
  static constexpr uint32_t kPageSlots = kPageTokens + 1;

  Arena<int32_t> slots_;
};

}  // namespace baton::rollout

#endif  // BATON_WORKERS_ROLLOUT_TREE_CACHE_TOKEN_TEXT_H_
