// All substrings of bounded length of the responses to one prompt, with counts, in linear space.
// Private to the tree cache.
//
// A suffix tree of several texts that grow at once, one token at a time. It is Ukkonen's
// construction ("On-line construction of suffix trees", 1995) with two changes. Strings are cut off
// at `depth` tokens. And all texts grow at the same time: if a response grows beyond the end of
// another one that still runs, it takes over the other's leaves (TakeOver).
//
// What is recorded. The suffix of response r that begins at its token i is *recorded* once it
// differs from every string in the tree, or has `depth` tokens, or once r has ended. Suffixes are
// recorded in order, so those not yet recorded are the shortest ones. They are exactly the suffixes
// that the tree knows from elsewhere, so the longest of them is the response's match. The count of
// a string is the number of recorded suffixes that begin with it, each with the weight of its
// response. So a running response's last match does not count yet, and everything before it does.
//
// TakeOver gives a record to another response: the leaf then belongs to the response that knows how
// the string goes on, and the other one's suffix is unrecorded until it differs, as above.
#ifndef BATON_WORKERS_ROLLOUT_TREE_CACHE_SUFFIX_TREE_H_
#define BATON_WORKERS_ROLLOUT_TREE_CACHE_SUFFIX_TREE_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "workers/rollout/tree_cache/draft.h"
#include "workers/rollout/tree_cache/node_store.h"
#include "workers/rollout/tree_cache/token_text.h"

namespace baton::rollout {

/// A response that grows. It belongs to its owner, and the tree changes it; from Start to End it
/// stays where it is.
struct GrowingText {
  float weight = 1;     // of each of its suffixes; the owner may change it by Scale alone
  uint32_t length = 0;  // tokens
  uint32_t first = 0;   // the first suffix that is not recorded: its match begins here
  uint32_t node = 0;    // on the path of the match
  uint32_t first_page = 0;
  // The capped context of the last draft, and a node on its path.
  uint32_t context_first = 0, context_node = 0;
  std::array<uint32_t, 8> pages{};  // the last of its pages: page k is pages[k % 8]
};

/// One thread at a time.
class SuffixTree {
 public:
  static constexpr int kMaxDepth = 255;

  /// Strings have at most `depth` tokens, 4 to kMaxDepth. A draft continues the longest match if
  /// that has at most depth / 2 tokens; see Draft.
  explicit SuffixTree(int depth) : depth_(static_cast<uint32_t>(depth)) {}
  SuffixTree(const SuffixTree&) = delete;
  SuffixTree& operator=(const SuffixTree&) = delete;

  /// `text` is as constructed, but for its weight.
  void Start(GrowingText* text) { growing_.push_back(text); }
  /// `token` is in [0, kEndToken). True: the match had been followed by it before.
  bool Append(GrowingText* text, int32_t token);
  /// Records what is left. `text` is not used any more.
  void End(GrowingText* text);

  /// Proposes at most `budget` tokens to follow `text`, into `draft`, whose vectors keep their
  /// capacity; see Draft for what they are.
  ///
  /// The context is the longest suffix of the text, shorter than `depth`, after which the tree has
  /// seen a token. If it has more than depth / 2 tokens, it is cut to begin at the first multiple
  /// of depth / 4 that leaves at most depth / 2, so that a draft may have depth / 2 tokens. A
  /// token's score is that of its parent (of the context: 1) times count(context, path, token) over
  /// the sum of that for all tokens seen there. The next token is the one with the highest score
  /// whose parent is in the draft; among equals the one whose parent came first; then the smaller
  /// token. It ends before the first score below `least_score`.
  void ProposeDraft(GrowingText* text, int budget, Draft* draft, double least_score = 0);

  /// The count of a string of 1 to `depth` tokens; of one token alone only whether it is known (1
  /// or 0), because no draft asks for more.
  double Count(absl::Span<const int32_t> tokens) const;
  /// Forgets the texts that ended, the oldest first, until those that are left have at most
  /// `tokens` tokens. The tree is then as if these had been appended anew, in the order of their
  /// ends, and then the growing texts, each at once. It takes as long.
  struct Forgotten {
    int64_t texts = 0, tokens = 0;
  };
  Forgotten KeepNewest(int64_t tokens);
  /// Tokens of ended texts, plus one for the end of each; and tokens of growing texts.
  int64_t ended_tokens() const { return ended_tokens_; }
  int64_t growing_tokens() const;
  /// Multiplies all weights, those of growing texts included.
  void Scale(float factor);

  /// Bytes that its arenas have allocated.
  int64_t capacity_bytes() const {
    return text_.capacity_bytes() + nodes_.capacity_bytes() +
           static_cast<int64_t>(growing_.capacity() * sizeof(GrowingText*) +
                                ended_.capacity() * sizeof(EndedText));
  }
  /// Positions of the text and nodes have 31 bits. Beyond this no response may append.
  bool full() const { return text_.slots() > 1U << 30 || nodes_.node_count() > 1U << 30; }
  uint32_t node_count() const { return nodes_.node_count(); }

 private:
  struct EndedText {
    uint32_t first_page, length;
    float weight;
  };
  /// The place where a string ends: at `node` if edge is null, else within or at the end of `edge`,
  /// which leaves `node`. `next` is the slot of the text behind the string, only if edge is not
  /// null.
  struct Place {
    uint32_t node;
    Edge* edge;
    uint32_t next;
  };

  static uint32_t Position(const GrowingText& text, uint32_t index);
  uint32_t Write(GrowingText* text, int32_t token);
  uint32_t LabelOf(Target target) const {
    return target.is_leaf() ? target.position() : nodes_.node(target.node()).label;
  }

  Place Locate(const GrowingText& text, uint32_t first, uint32_t length, uint32_t node);
  uint32_t FollowLink(uint32_t node) const;
  void SetLink(uint32_t* from, uint32_t to);
  uint32_t Split(const Place& place, uint32_t length);
  void AddWeight(uint32_t node, Edge* edge, float weight);
  void TakeOver(GrowingText* text, uint32_t first, const Place& place);
  GrowingText* GrowingAt(uint32_t slot) const;
  void AppendOld(const TokenText& old_text, uint32_t page, uint32_t length, GrowingText* text);

  // The making of a draft (suffix_tree_draft.cc).
  struct Candidate;
  class Proposal;
  Place LongestContext(const GrowingText& text, uint32_t* length);
  Place CappedContext(GrowingText* text, uint32_t* length);

  const uint32_t depth_;
  TokenText text_;
  std::vector<GrowingText*> growing_;
  NodeStore nodes_;
  std::vector<EndedText> ended_;  // the oldest end first
  int64_t ended_tokens_ = 0;
};

}  // namespace baton::rollout

#endif  // BATON_WORKERS_ROLLOUT_TREE_CACHE_SUFFIX_TREE_H_
