// Drafters for tests: one that knows the responses, and proposes trees of all kinds around them.
#ifndef BATON_TESTS_SUPPORT_ENGINE_DRAFTER_H_
#define BATON_TESTS_SUPPORT_ENGINE_DRAFTER_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "tests/support/engine/generator.h"
#include "workers/engine/generation/drafter.h"

namespace baton::engine::testing {

/// A token that `token` is not, for 0 < `more` < kVocab.
inline int32_t OtherToken(int32_t token, int64_t more = 1) {
  return static_cast<int32_t>((token + more) % kVocab);
}

/// Adds a node, or finds the one that is there. Returns its index.
inline int32_t AddNode(DraftTree& tree, int32_t parent, int32_t token) {
  for (size_t i = 0; i < tree.tokens.size(); ++i) {
    if (tree.parents[i] == parent && tree.tokens[i] == token) return static_cast<int32_t>(i);
  }
  tree.tokens.push_back(token);
  tree.parents.push_back(parent);
  return static_cast<int32_t>(tree.tokens.size() - 1);
}

inline int32_t AddPath(DraftTree& tree, int32_t parent, absl::Span<const int32_t> tokens) {
  for (const int32_t token : tokens) parent = AddNode(tree, parent, token);
  return parent;
}

/// The number of the coming tokens that the tree has, one below the other.
inline int64_t Predicted(const DraftTree& tree, absl::Span<const int32_t> tokens) {
  int32_t node = -1;
  int64_t count = 0;
  for (const int32_t token : tokens) {
    int32_t child = -1;
    for (size_t i = 0; i < std::min(tree.tokens.size(), tree.parents.size()); ++i) {
      if (tree.parents[i] == node && tree.tokens[i] == token) child = static_cast<int32_t>(i);
    }
    if (child < 0) break;
    node = child;
    ++count;
  }
  return count;
}

/// Expects the nodes of `outcome` to be those of `tree`, and its path to be drawn as `tokens`.
inline void ExpectNodesOf(const DraftTree& tree, const DraftOutcome& outcome,
                          absl::Span<const int32_t> tokens) {
  const auto nodes = static_cast<int32_t>(std::min(tree.tokens.size(), tree.parents.size()));
  EXPECT_LE(outcome.path.size(), tokens.size());
  for (size_t i = 0; i < outcome.path.size(); ++i) {
    ASSERT_LT(outcome.path[i], nodes);
    EXPECT_EQ(tree.tokens[outcome.path[i]], tokens[i]);
    EXPECT_EQ(tree.parents[outcome.path[i]], i == 0 ? -1 : outcome.path[i - 1]);
    const bool computed =
        std::count(outcome.computed.begin(), outcome.computed.end(), outcome.path[i]) == 1;
    EXPECT_TRUE(computed || i + 1 == outcome.path.size());
  }
  EXPECT_TRUE(std::is_sorted(outcome.computed.begin(), outcome.computed.end()));
  if (!outcome.computed.empty()) EXPECT_LT(outcome.computed.back(), nodes);
}

/// `future` among wrong siblings, which come first at every depth.
inline DraftTree AmongSiblings(absl::Span<const int32_t> future, int siblings) {
  DraftTree tree;
  int32_t node = -1;
  for (const int32_t token : future) {
    for (int s = 1; s <= siblings; ++s) AddNode(tree, node, OtherToken(token, 3 * s));
    node = AddNode(tree, node, token);
  }
  return tree;
}

/// Any tree for a response that goes on by `future`: good, bad or nonsense.
inline DraftTree SomeTree(absl::Span<const int32_t> future, std::mt19937& random) {
  const auto any = [&] { return static_cast<int32_t>(random() % kVocab); };
  const auto some = [&](int64_t n) {
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < n; ++i) tokens.push_back(any());
    return tokens;
  };
  DraftTree tree;
  const absl::Span<const int32_t> part =
      future.subspan(0, future.empty() ? 0 : 1 + random() % std::min<size_t>(future.size(), 12));
  switch (random() % 9) {
    case 0:
      return tree;
    case 1:
      return ChainDraft(future.subspan(0, 30));
    case 2:
      return AmongSiblings(part, 1 + static_cast<int>(random() % 3));
    case 3:  // long wrong branches first; each leaves the future somewhere
      for (int branch = 0; branch < 3; ++branch) {
        const int32_t node = AddPath(tree, -1, part.subspan(0, random() % (part.size() + 1)));
        AddPath(tree, node, some(1 + random() % 20));
      }
      AddPath(tree, -1, part);
      return tree;
    case 4:  // every node may have any parent
      for (int i = 0; i < 30; ++i)
        AddNode(tree, static_cast<int32_t>(random() % (i + 1)) - 1, any());
      for (size_t i = 0; i < tree.parents.size(); ++i) {
        tree.parents[i] = std::min(tree.parents[i], static_cast<int32_t>(i) - 1);
      }
      return tree;
    case 5:  // nonsense
      for (int i = 0; i < 25; ++i) {
        tree.tokens.push_back(static_cast<int32_t>(random() % (kVocab + 10)) - 5);
        tree.parents.push_back(static_cast<int32_t>(random() % 30) - 3);
      }
      AddPath(tree, -1, part);
      if (random() % 2 == 0) tree.parents.resize(random() % tree.parents.size());
      return tree;
    case 6:  // one token over and over, and stops
      for (const int32_t token : {3, 9, future.empty() ? 1 : future[0]}) {
        AddPath(tree, -1, std::vector<int32_t>(1 + random() % 8, token));
      }
      return tree;
    case 7: {  // goes on beyond the end of the response
      const int32_t node = AddPath(tree, -1, future.subspan(0, 20));
      AddPath(tree, node, some(1 + random() % 40));
      return tree;
    }
    default:  // the future twice, once with a token that is none before it
      AddPath(tree, AddNode(tree, -1, kVocab + 7), part);
      AddPath(tree, -1, part);
      AddNode(tree, -1, -2);
      return tree;
  }
}

/// Proposes what `propose` makes of a response's future.
class OracleDrafter : public Drafter {
 public:
  using Propose = std::function<DraftTree(absl::Span<const int32_t> future, int64_t max_nodes)>;

  explicit OracleDrafter(Propose propose) : propose_(std::move(propose)) {}

  /// Must be told of each request before it is added: its response, without resumed tokens.
  void Know(uint64_t id, std::vector<int32_t> response) { futures_[id] = std::move(response); }

  void Begin(uint64_t id, absl::Span<const int32_t>, absl::Span<const int32_t>) override {
    EXPECT_TRUE(live_.emplace(id, Live()).second) << "begins twice";
  }
  void Append(uint64_t id, absl::Span<const int32_t> tokens, const DraftOutcome& outcome) override {
    EXPECT_FALSE(tokens.empty());
    Live& live = live_.at(id);
    ExpectNodesOf(live.proposed, outcome, tokens);
    predicted_ += Predicted(live.proposed, tokens);
    live.proposed = DraftTree();
    live.passed += tokens.size();
  }
  bool WantsToDraft(int64_t decoding) override { return true; }
  std::vector<DraftTree> Draft(absl::Span<const uint64_t> ids, int64_t max_nodes) override {
    EXPECT_GE(max_nodes, 1);
    std::vector<DraftTree> trees;
    const int64_t share = std::max<int64_t>(1, max_nodes / static_cast<int64_t>(ids.size()));
    for (const uint64_t id : ids) {
      trees.push_back(propose_(Future(id), share));
      live_.at(id).proposed = trees.back();
    }
    asked_nodes_ = std::max(asked_nodes_, max_nodes);
    ++calls_;
    return trees;
  }
  void PassDone(int64_t rows, double seconds) override {
    EXPECT_GT(rows, 0);
    EXPECT_GT(seconds, 0);
    rows_ += rows;
  }
  void End(uint64_t id) override { EXPECT_EQ(live_.erase(id), 1u) << "ends without a beginning"; }

  /// Gives every live request a draft for the next step, be memory short or not.
  void SetDrafts(Generator& generator) {
    for (const auto& [id, live] : live_) {
      generator.SetDraft(id, propose_(Future(id), kSetNodes));
    }
  }

  size_t live() const { return live_.size(); }
  int64_t calls() const { return calls_; }
  int64_t asked_nodes() const { return asked_nodes_; }  // the most for one pass
  int64_t rows() const { return rows_; }
  int64_t predicted() const { return predicted_; }  // tokens that came as proposed

 private:
  static constexpr int64_t kSetNodes = 32;
  struct Live {
    size_t passed = 0;
    DraftTree proposed;
  };
  absl::Span<const int32_t> Future(uint64_t id) const {
    const auto& known = futures_.at(id);  // the response may have become another one
    return absl::MakeConstSpan(known).subspan(std::min(live_.at(id).passed, known.size()));
  }

  const Propose propose_;
  std::map<uint64_t, std::vector<int32_t>> futures_;
  std::map<uint64_t, Live> live_;
  int64_t calls_ = 0, asked_nodes_ = 0, predicted_ = 0, rows_ = 0;
};

}  // namespace baton::engine::testing

#endif  // BATON_TESTS_SUPPORT_ENGINE_DRAFTER_H_
