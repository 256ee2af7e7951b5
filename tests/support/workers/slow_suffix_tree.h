// A plain and slow SuffixTree, written from the contract of suffix_tree.h: a map from each string
// to the tokens after it and their weights.
#ifndef BATON_TESTS_SUPPORT_WORKERS_SLOW_SUFFIX_TREE_H_
#define BATON_TESTS_SUPPORT_WORKERS_SLOW_SUFFIX_TREE_H_

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "workers/rollout/tree_cache/draft.h"
#include "workers/rollout/tree_cache/token_text.h"

namespace baton::rollout {

class SlowSuffixTree {
 public:
  using Tokens = std::vector<int32_t>;

  struct Text {
    Tokens tokens;
    int first = 0;  // suffixes before this one are recorded
    double weight = 1;
    bool ended = false;
  };

  explicit SlowSuffixTree(int depth) : depth_(depth) {}

  Text* Start(double weight = 1) {
    texts_.push_back(std::make_unique<Text>());
    texts_.back()->weight = weight;
    return texts_.back().get();
  }

  void Append(Text* text, int32_t token) {
    text->tokens.push_back(token);
    const int end = Length(*text) - 1;
    for (int i = std::max(0, end + 1 - depth_); i < text->first; ++i) {
      Add(Part(*text, i, end + 1), text->weight);
    }
    while (text->first <= end && !(token == kEndToken && text->first == end)) {
      const Tokens longer = Part(*text, text->first, end + 1);
      if (!Knows(longer)) {
        TakeOver(text, Part(*text, text->first, end));
      } else if (static_cast<int>(longer.size()) < depth_) {
        break;
      }
      Record(text, text->first++, 1);
    }
  }

  void End(Text* text) {
    Append(text, kEndToken);
    for (int i = text->first; i + 1 < Length(*text); ++i) Record(text, i, 1);
    text->ended = true;
    ended_.push_back(text);
  }

  void KeepNewest(int64_t tokens) {
    std::vector<std::unique_ptr<Text>> old = std::move(texts_);
    std::vector<Text*> again;
    for (auto it = ended_.rbegin(); it != ended_.rend() && Length(**it) <= tokens; ++it) {
      tokens -= Length(**it);
      again.insert(again.begin(), *it);
    }
    for (const auto& text : old) {
      if (!text->ended) again.push_back(text.get());
    }
    texts_.clear();
    next_.clear();
    ended_.clear();
    for (Text* const text : again) {
      const auto owner =
          std::find_if(old.begin(), old.end(), [&](const auto& one) { return one.get() == text; });
      texts_.push_back(std::move(*owner));
      Tokens said = std::move(text->tokens);
      const bool ended = text->ended;
      *text = {{}, 0, text->weight, false};
      if (ended) said.pop_back();
      for (const int32_t token : said) Append(text, token);
      if (ended) End(text);
    }
  }

  double Count(const Tokens& tokens) const {
    const auto after = next_.find(Tokens(tokens.begin(), tokens.end() - 1));
    if (after == next_.end()) return 0;
    const auto count = after->second.find(tokens.back());
    return count == after->second.end() ? 0 : count->second;
  }

  void ProposeDraft(const Text& text, int budget, Draft* draft) const {
    draft->Clear();
    const int end = Length(text);
    int length = std::min(end, depth_ - 1);
    while (length > 0 && TokensAfter(Part(text, end - length, end)).empty()) --length;
    if (budget <= 0 || length == 0) return;
    draft->match_length = length;
    if (length > depth_ / 2) {
      int first = 0;
      while (end - first > depth_ / 2) first += depth_ / 4;
      length = end - first;
    }
    Choose({Part(text, end - length, end)}, budget, text.weight, draft);
  }

  /// All strings with a weight.
  std::vector<Tokens> Strings() const {
    std::vector<Tokens> all;
    for (const auto& [before, after] : next_) {
      for (const auto& [token, weight] : after) {
        all.push_back(before);
        all.back().push_back(token);
      }
    }
    return all;
  }

 private:
  static int Length(const Text& text) { return static_cast<int>(text.tokens.size()); }
  static Tokens Part(const Text& text, int begin, int end) {
    return Tokens(text.tokens.begin() + begin, text.tokens.begin() + end);
  }
  bool Knows(const Tokens& tokens) const { return tokens.empty() || Count(tokens) > 0; }

  void Add(const Tokens& tokens, double weight) {
    auto& after = next_[Tokens(tokens.begin(), tokens.end() - 1)];
    double& count = after[tokens.back()];
    count += weight;
    if (count <= 0) after.erase(tokens.back());
  }

  void Record(Text* text, int suffix, int sign) {
    const int end = std::min(Length(*text), suffix + depth_);
    for (int i = suffix + 1; i <= end; ++i) Add(Part(*text, suffix, i), sign * text->weight);
  }

  /// `text` goes on after `match`. If nothing did so far, another text ends there.
  void TakeOver(Text* text, const Tokens& match) {
    if (match.empty() || !Knows(match)) return;
    if (const auto after = next_.find(match); after != next_.end() && !after->second.empty()) {
      return;
    }
    for (const auto& other : texts_) {
      const int begin = Length(*other) - static_cast<int>(match.size());
      if (other.get() == text || other->ended || begin < 0 || begin >= other->first) continue;
      if (Part(*other, begin, Length(*other)) != match) continue;
      for (int i = begin; i < other->first; ++i) Record(other.get(), i, -1);
      other->first = begin;
      return;
    }
  }

  std::map<int32_t, double> TokensAfter(const Tokens& tokens) const {
    const auto after = next_.find(tokens);
    if (after == next_.end()) return {};
    std::map<int32_t, double> found = after->second;
    found.erase(kEndToken);
    return found;
  }

  /// `paths[i + 1]` is the context and the path to node i; `text_weight` is the text's.
  void Choose(std::vector<Tokens> paths, int budget, double text_weight, Draft* draft) const {
    struct Choice {
      double score;
      double seen;
      int parent;
      int32_t token;
    };
    std::vector<Choice> open;
    std::vector<double> scores = {1.0};
    for (int made = 0;; ++made) {
      const Tokens& path = paths.back();
      if (static_cast<int>(path.size()) < depth_) {
        double total = 0;
        const auto after = TokensAfter(path);
        for (const auto& [token, weight] : after) total += weight;
        for (const auto& [token, weight] : after) {
          open.push_back({scores.back() * (weight / total), total, made - 1, token});
        }
      }
      if (made == budget || open.empty()) return;
      const auto best =
          std::min_element(open.begin(), open.end(), [](const Choice& a, const Choice& b) {
            if (a.score != b.score) return a.score > b.score;
            return a.parent != b.parent ? a.parent < b.parent : a.token < b.token;
          });
      draft->tree.tokens.push_back(best->token);
      draft->tree.parents.push_back(best->parent);
      draft->scores.push_back(static_cast<float>(best->score));
      draft->seen.push_back(static_cast<float>(best->seen / text_weight));
      paths.push_back(paths[static_cast<size_t>(best->parent + 1)]);
      paths.back().push_back(best->token);
      scores.push_back(best->score);
      open.erase(best);
    }
  }

  const int depth_;
  std::vector<std::unique_ptr<Text>> texts_;
  std::vector<Text*> ended_;
  std::map<Tokens, std::map<int32_t, double>> next_;
};

}  // namespace baton::rollout

#endif  // BATON_TESTS_SUPPORT_WORKERS_SLOW_SUFFIX_TREE_H_
