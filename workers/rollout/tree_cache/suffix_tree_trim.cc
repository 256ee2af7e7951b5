// A tree that became too large, built anew from its newest texts.
#include <algorithm>
#include <utility>

#include "workers/rollout/tree_cache/suffix_tree.h"

namespace baton::rollout {

SuffixTree::Forgotten SuffixTree::KeepNewest(int64_t tokens) {
  int64_t kept = 0;
  size_t first = ended_.size();
  while (first > 0 && kept + ended_[first - 1].length <= tokens) kept += ended_[--first].length;
  Forgotten forgotten;
  forgotten.texts = static_cast<int64_t>(first);
  forgotten.tokens = ended_tokens_ - kept - forgotten.texts;

  // Nodes go first: the new tree and the old text together have less memory than the old tree.
  nodes_ = NodeStore();
  const TokenText old_text = std::exchange(text_, TokenText());
  std::vector<EndedText> ended;
  ended.assign(ended_.begin() + static_cast<ptrdiff_t>(first), ended_.end());
  ended_ = {};
  ended_tokens_ = 0;
  const std::vector<GrowingText*> growing = std::exchange(growing_, {});
  for (const EndedText& old : ended) {
    GrowingText text;
    text.weight = old.weight;
    AppendOld(old_text, old.first_page, old.length - 1, &text);
    End(&text);
  }
  for (GrowingText* const text : growing) {
    const GrowingText old = std::exchange(*text, GrowingText());
    text->weight = old.weight;
    AppendOld(old_text, old.first_page, old.length, text);
  }
  return forgotten;
}

void SuffixTree::AppendOld(const TokenText& old_text, uint32_t page, uint32_t length,
                           GrowingText* text) {
  Start(text);
  uint32_t position = TokenText::Position(page, 0);
  for (uint32_t i = 0; i < length; ++i) {
    Append(text, old_text.At(position));
    if (i + 1 < length) position = old_text.Advance(position, 1);
  }
}

}  // namespace baton::rollout
