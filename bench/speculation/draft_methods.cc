#include "bench/speculation/draft_methods.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <utility>

#include "workers/rollout/tree_cache/tree_cache.h"

namespace baton::bench {
namespace {

void CheckWay(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "speculation_engine_bench: %s\n", std::string(status.message()).c_str());
  std::exit(1);
}

enum class TreeScope { kPrompt, kGlobal };

class TreeMethod : public DraftMethod {
 public:
  explicit TreeMethod(TreeScope scope) : scope_(scope) {
    auto cache = rollout::TreeCache::Create({});
    CheckWay(cache.status());
    cache_ = *std::move(cache);
  }

  void Begin(absl::Span<const int32_t> prompt) override {
    if (scope_ == TreeScope::kGlobal) prompt = {};
    cursor_ = cache_->Begin(prompt, 0);
  }
  void Append(absl::Span<const int32_t> tokens) override { CheckWay(cursor_->Append(tokens)); }
  engine::DraftTree Draft(int64_t budget) override {
    cursor_->ProposeDraft(static_cast<int>(budget), &draft_);
    return draft_.tree;
  }
  void End() override { cursor_ = nullptr; }

 private:
  const TreeScope scope_;
  std::unique_ptr<rollout::TreeCache> cache_;
  std::unique_ptr<rollout::ResponseCursor> cursor_;
  rollout::Draft draft_;
};

class RandomTreeMethod : public TreeMethod {
 public:
  RandomTreeMethod() : TreeMethod(TreeScope::kPrompt) {}

  engine::DraftTree Draft(int64_t budget) override {
    constexpr int64_t kWider = 8;  // Enough nodes to choose from.
    const engine::DraftTree all = TreeMethod::Draft(kWider * budget);
    std::vector<int32_t> taken(all.tokens.size(), -1);  // The node's index in `draft`.
    std::vector<size_t> frontier;
    AddChildren(all, -1, &frontier);
    engine::DraftTree draft;
    while (!frontier.empty() && draft.size() < budget) {
      std::swap(frontier[rng_() % frontier.size()], frontier.back());
      const size_t node = frontier.back();
      frontier.pop_back();
      taken[node] = static_cast<int32_t>(draft.size());
      const int32_t parent = all.parents[node];
      draft.tokens.push_back(all.tokens[node]);
      draft.parents.push_back(parent < 0 ? -1 : taken[static_cast<size_t>(parent)]);
      AddChildren(all, static_cast<int32_t>(node), &frontier);
    }
    return draft;
  }

 private:
  static void AddChildren(const engine::DraftTree& tree, int32_t parent,
                          std::vector<size_t>* nodes) {
    for (size_t i = static_cast<size_t>(parent + 1); i < tree.tokens.size(); ++i) {
      if (tree.parents[i] == parent) nodes->push_back(i);
    }
  }

  std::mt19937_64 rng_{31};
};

enum class LookupScope { kPrompt, kOwnText };

class LookupMethod : public DraftMethod {
 public:
  /// `longest`: of the suffixes that are looked up, in tokens.
  LookupMethod(LookupScope scope, size_t longest) : scope_(scope), longest_(longest) {}

  void Begin(absl::Span<const int32_t> prompt) override {
    texts_ = &by_prompt_[{prompt.begin(), prompt.end()}];
    if (scope_ == LookupScope::kOwnText) {
      texts_->assign(1, {prompt.begin(), prompt.end()});
    } else {
      texts_->push_back({kStart});  // Teaches the lookup how responses begin.
    }
  }
  void Append(absl::Span<const int32_t> tokens) override {
    texts_->back().insert(texts_->back().end(), tokens.begin(), tokens.end());
  }
  engine::DraftTree Draft(int64_t budget) override {
    absl::Span<const int32_t> next;
    size_t best = 0;
    for (size_t t = texts_->size(); t-- > 0;) {
      const auto text = absl::MakeConstSpan((*texts_)[t]);
      for (size_t end = text.size() - 1; end > 0; --end) {
        const size_t length = CommonSuffix(text.first(end), texts_->back());
        if (length <= best) continue;
        best = length;
        next = text.subspan(end, static_cast<size_t>(budget));
      }
    }
    return engine::ChainDraft(next);
  }
  void End() override {}

 private:
  static constexpr int32_t kStart = -1;

  size_t CommonSuffix(absl::Span<const int32_t> a, absl::Span<const int32_t> b) const {
    const size_t most = std::min({a.size(), b.size(), longest_});
    size_t length = 0;
    while (length < most && a[a.size() - 1 - length] == b[b.size() - 1 - length]) ++length;
    return length;
  }

  const LookupScope scope_;
  const size_t longest_;
  using Texts = std::vector<std::vector<int32_t>>;  // The last one goes on.
  std::map<std::vector<int32_t>, Texts> by_prompt_;
  Texts* texts_ = nullptr;
};

// Nodes of `draft` on the path that `tokens` take.
size_t AcceptedNodes(const engine::DraftTree& draft, absl::Span<const int32_t> tokens) {
  size_t accepted = 0;
  int32_t parent = -1;
  for (size_t i = 0; i < draft.tokens.size() && accepted < tokens.size(); ++i) {
    if (draft.parents[i] != parent || draft.tokens[i] != tokens[accepted]) continue;
    parent = static_cast<int32_t>(i);
    ++accepted;
  }
  return accepted;
}

}  // namespace

std::vector<NamedDraftMethod> AllDraftMethods() {
  std::vector<NamedDraftMethod> methods;
  methods.push_back({"path_score", std::make_unique<TreeMethod>(TreeScope::kPrompt)});
  methods.push_back({"global_tree", std::make_unique<TreeMethod>(TreeScope::kGlobal)});
  methods.push_back({"random_tree", std::make_unique<RandomTreeMethod>()});
  methods.push_back({"suffix_chain", std::make_unique<LookupMethod>(LookupScope::kPrompt, 63)});
  methods.push_back({"ngram", std::make_unique<LookupMethod>(LookupScope::kPrompt, 3)});
  methods.push_back({"prompt_lookup", std::make_unique<LookupMethod>(LookupScope::kOwnText, 3)});
  return methods;
}

double AcceptedPerDraft(DraftMethod& method, const EpochLoad& load,
                        const std::vector<Epoch>& epochs, int64_t budget) {
  for (size_t e = 0; e + 1 < epochs.size(); ++e) {
    for (size_t i = 0; i < load.responses(); ++i) {
      method.Begin(load.PromptOf(i));
      method.Append(epochs[e].responses[i].tokens);
      method.End();
    }
  }
  size_t passes = 0, accepted = 0;
  for (size_t i = 0; i < load.responses(); ++i) {
    auto rest = absl::MakeConstSpan(epochs.back().responses[i].tokens);
    method.Begin(load.PromptOf(i));
    while (!rest.empty()) {
      const size_t right = AcceptedNodes(method.Draft(budget), rest);
      const size_t yielded = std::min(right + 1, rest.size());
      method.Append(rest.first(yielded));
      rest.remove_prefix(yielded);
      accepted += right;
      ++passes;
    }
    method.End();
  }
  return passes == 0 ? 0 : static_cast<double>(accepted) / static_cast<double>(passes);
}

}  // namespace baton::bench
