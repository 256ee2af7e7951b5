// libFuzzer: operations in any order. The first byte chooses: one suffix tree, whose every draft
// and count must be the slow tree's; or a small cache that evicts, whose bytes must be right.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "tests/support/workers/slow_suffix_tree.h"
#include "workers/rollout/tree_cache/suffix_tree.h"
#include "workers/rollout/tree_cache/tree_cache.h"

namespace baton::rollout {
namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

/// Reads numbers from the input; 0 behind its end.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  bool done() const { return at_ >= size_; }
  uint32_t Below(uint32_t bound) { return done() ? 0 : data_[at_++] % bound; }

 private:
  const uint8_t* const data_;
  const size_t size_;
  size_t at_ = 0;
};

void CompareWithSlowTree(Input input) {
  struct Response {
    std::unique_ptr<GrowingText> text;
    SlowSuffixTree::Text* slow;
  };
  const int depth = 4 + static_cast<int>(input.Below(12));
  const uint32_t alphabet = 1 + input.Below(6);
  SuffixTree tree(depth);
  SlowSuffixTree slow(depth);
  std::vector<Response> running;
  for (int step = 0; step < 100 && !input.done(); ++step) {
    const uint32_t what = input.Below(16);
    if (running.empty() || (what == 0 && running.size() < 6)) {
      const auto weight = static_cast<float>(1U << input.Below(4));
      running.push_back({std::make_unique<GrowingText>(), slow.Start(weight)});
      running.back().text->weight = weight;
      tree.Start(running.back().text.get());
      continue;
    }
    const size_t i = input.Below(static_cast<uint32_t>(running.size()));
    if (what == 1) {
      tree.End(running[i].text.get());
      slow.End(running[i].slow);
      running.erase(running.begin() + static_cast<ptrdiff_t>(i));
    } else if (what < 4) {
      const int budget = static_cast<int>(input.Below(16));
      Draft draft, expected;
      tree.ProposeDraft(running[i].text.get(), budget, &draft);
      slow.ProposeDraft(*running[i].slow, budget, &expected);
      Require(draft.tree.tokens == expected.tree.tokens);
      Require(draft.tree.parents == expected.tree.parents);
      Require(draft.scores == expected.scores);
      Require(draft.seen == expected.seen);
      Require(budget == 0 || draft.match_length == expected.match_length);
    } else if (what == 4) {
      const auto tokens = static_cast<int64_t>(input.Below(100));
      tree.KeepNewest(tokens);
      slow.KeepNewest(tokens);
    } else {
      const auto token = static_cast<int32_t>(input.Below(alphabet));
      tree.Append(running[i].text.get(), token);
      slow.Append(running[i].slow, token);
    }
  }
  for (const auto& tokens : slow.Strings()) {
    if (tokens.back() == kEndToken) continue;
    Require(tree.Count(tokens) == (tokens.size() == 1 ? 1 : slow.Count(tokens)));
  }
}

void UseCache(Input input) {
  TreeCacheOptions options;
  options.depth = 4 + static_cast<int>(input.Below(252));
  options.half_life_updates = static_cast<double>(input.Below(3));
  options.max_bytes = int64_t{1} << 20;
  const auto cache = *TreeCache::Create(options);
  std::vector<std::unique_ptr<ResponseCursor>> running;
  std::vector<int32_t> tokens;
  uint32_t random = 1;
  int64_t updates = 0;
  for (int step = 0; step < 150 && !input.done(); ++step) {
    const uint32_t what = input.Below(8);
    updates += input.Below(2) * static_cast<int64_t>(input.Below(200));
    if (running.empty() || (what == 0 && running.size() < 10)) {
      running.push_back(cache->Begin({static_cast<int32_t>(input.Below(20))},
                                     updates - static_cast<int64_t>(input.Below(3))));
      continue;
    }
    const size_t i = input.Below(static_cast<uint32_t>(running.size()));
    if (what == 1) {
      running.erase(running.begin() + static_cast<ptrdiff_t>(i));
    } else if (what == 2) {
      Draft draft;
      const uint32_t budget = input.Below(64);
      TreeCache::ProposeDrafts({{running[i].get(), static_cast<int>(budget), &draft}});
      Require(draft.tree.tokens.size() <= budget);
      Require(draft.tree.tokens.empty() || draft.match_length > 0);
      for (const float score : draft.scores) Require(score >= 0 && score <= 1);
    } else {
      tokens.assign(1 + input.Below(255), 0);
      const uint32_t alphabet = 1 + input.Below(255) * input.Below(255);
      for (int32_t& token : tokens) {
        random = random * 1664525 + 1013904223;
        token = static_cast<int32_t>((random >> 8) % alphabet);
      }
      Require(running[i]->Append(tokens).ok());
    }
    Require(cache->stats().bytes == cache->CountBytes());
  }
  running.clear();
  Require(cache->stats().bytes == cache->CountBytes());
  Require(cache->stats().running_responses == 0);
}

}  // namespace
}  // namespace baton::rollout

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const baton::rollout::Input input(data + 1, size - 1);
  if (data[0] % 4 == 0) {
    baton::rollout::UseCache(input);
  } else {
    baton::rollout::CompareWithSlowTree(input);
  }
  return 0;
}
