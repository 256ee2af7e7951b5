#include "workers/rollout/tree_cache/tree_cache.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace baton::rollout {
namespace {

constexpr int64_t kLeastBytes = int64_t{1} << 20;
// One prompt's tree may take the budget divided by this.
constexpr int64_t kLargestTree = 8;
// Tokens appended under one lock. The prompt's other responses wait for it, some tens of
// microseconds.
constexpr size_t kPart = 256;

absl::Status CheckTokens(absl::Span<const int32_t> tokens) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && tokens[i] < kStartToken) continue;
    return absl::InvalidArgumentError(absl::StrCat("tokens[", i, "]: ", tokens[i],
                                                   " is not in [0, ", kStartToken - 1,
                                                   "]; append token ids of the tokenizer"));
  }
  return absl::OkStatus();
}

}  // namespace

ResponseCursor::~ResponseCursor() {
  if (!stopped_) Stop();
}

absl::Status ResponseCursor::Append(absl::Span<const int32_t> tokens) {
  if (absl::Status status = CheckTokens(tokens); !status.ok()) return status;
  for (; !tokens.empty() && !stopped_; tokens.remove_prefix(std::min(kPart, tokens.size()))) {
    AppendPart(tokens.subspan(0, kPart));
  }
  return absl::OkStatus();
}

void ResponseCursor::AppendPart(absl::Span<const int32_t> tokens) {
  int64_t bytes_grown = 0;
  bool room = tree_->Append(&text_, tokens, &bytes_grown);
  if (bytes_grown != 0) cache_->AddBytes(bytes_grown);
  if (bytes_grown > 0 && cache_->OverBudget()) room = cache_->MakeRoom();
  if (room) return;
  Stop();
  cache_->stopped_responses_.fetch_add(1, std::memory_order_relaxed);
  if (cache_->OverBudget()) cache_->MakeRoom();
}

void ResponseCursor::ProposeDraft(int budget, Draft* draft, double least_score) {
  if (stopped_) {
    draft->Clear();
  } else {
    tree_->ProposeDraft(&text_, budget, draft, least_score);
  }
}

void ResponseCursor::Stop() {
  int64_t bytes_grown = 0;
  tree_->End(&text_, &bytes_grown);
  cache_->AddBytes(bytes_grown);
  stopped_ = true;
  cache_->Leave(*tree_);  // From now on the tree may be evicted.
}

absl::StatusOr<std::unique_ptr<TreeCache>> TreeCache::Create(const TreeCacheOptions& options) {
  std::vector<std::string> wrong;
  if (options.depth < 4 || options.depth > SuffixTree::kMaxDepth) {
    wrong.push_back(
        absl::StrCat("depth: ", options.depth, " is not in [4, ", SuffixTree::kMaxDepth, "]"));
  }
  if (!std::isfinite(options.half_life_updates) || options.half_life_updates < 0) {
    wrong.push_back(absl::StrCat("half_life_updates: ", options.half_life_updates,
                                 " is not 0 (never fade) or a positive number"));
  }
  if (options.max_bytes < kLeastBytes) {
    wrong.push_back(absl::StrCat("max_bytes: ", options.max_bytes, " is less than ", kLeastBytes));
  }
  if (!wrong.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("options of the tree cache: ", absl::StrJoin(wrong, "; ")));
  }
  return std::unique_ptr<TreeCache>(new TreeCache(options));
}

TreeCache::~TreeCache() = default;

std::unique_ptr<ResponseCursor> TreeCache::Begin(absl::Span<const int32_t> prompt,
                                                 int64_t actor_updates) {
  PromptTree* tree = nullptr;
  {
    absl::MutexLock lock(&mu_);
    auto found = prompts_.find(prompt);
    if (found == prompts_.end()) {
      auto made = std::make_unique<PromptTree>(prompt, options_.depth, options_.half_life_updates,
                                               options_.max_bytes / kLargestTree);
      AddBytes(made->bytes());
      const absl::Span<const int32_t> key = made->prompt();
      found = prompts_.emplace(key, Prompt{std::move(made)}).first;
    }
    ++found->second.running;
    found->second.last_used = ++uses_;
    tree = found->second.tree.get();
  }
  std::unique_ptr<ResponseCursor> cursor(new ResponseCursor(this, tree));
  int64_t bytes_grown = 0;
  tree->Start(&cursor->text_, actor_updates, &bytes_grown);
  AddBytes(bytes_grown);
  if (OverBudget()) MakeRoom();
  return cursor;
}

absl::Status TreeCache::Add(absl::Span<const int32_t> prompt, absl::Span<const int32_t> response,
                            int64_t actor_updates) {
  return Begin(prompt, actor_updates)->Append(response);
}

void TreeCache::ProposeDrafts(absl::Span<const DraftQuery> queries) {
  for (size_t i = 0; i < queries.size(); ++i) {
    if (i + 1 < queries.size()) __builtin_prefetch(queries[i + 1].cursor->tree_);
    const DraftQuery& query = queries[i];
    query.cursor->ProposeDraft(query.budget, query.draft, query.least_score);
  }
}

int64_t TreeCache::StoredTokens(absl::Span<const int32_t> prompt) const {
  absl::MutexLock lock(&mu_);
  const auto found = prompts_.find(prompt);
  return found == prompts_.end() ? 0 : found->second.tree->tokens();
}

TreeCacheStats TreeCache::stats() const {
  TreeCacheStats stats;
  stats.bytes = bytes_.load(std::memory_order_relaxed);
  stats.stopped_responses = stopped_responses_.load(std::memory_order_relaxed);
  absl::MutexLock lock(&mu_);
  stats.prompts = static_cast<int64_t>(prompts_.size());
  stats.evicted_prompts = evicted_prompts_;
  for (const auto& [key, prompt] : prompts_) {
    stats.running_responses += prompt.running;
    stats.tokens += prompt.tree->tokens();
  }
  return stats;
}

int64_t TreeCache::CountBytes() const {
  absl::MutexLock lock(&mu_);
  int64_t bytes = 0;
  for (const auto& [key, prompt] : prompts_) bytes += prompt.tree->CountBytes();
  return bytes;
}

void TreeCache::Leave(const PromptTree& tree) {
  absl::MutexLock lock(&mu_);
  Prompt& prompt = prompts_.find(tree.prompt())->second;
  --prompt.running;
  prompt.last_used = ++uses_;
}

/// Evicts until a sixteenth of the budget is free, because looking for the least useful prompts
/// reads all of them. False: the budget is still exceeded, and every prompt is in use.
bool TreeCache::MakeRoom() {
  struct Idle {
    double usefulness;
    uint64_t last_used;
    absl::Span<const int32_t> prompt;
  };
  absl::MutexLock lock(&mu_);
  if (!OverBudget()) return true;  // Another thread made it.
  std::vector<Idle> idle;
  for (const auto& [key, prompt] : prompts_) {
    if (prompt.running > 0) continue;
    idle.push_back({prompt.tree->LogUsefulness(), prompt.last_used, key});
  }
  std::sort(idle.begin(), idle.end(), [](const Idle& a, const Idle& b) {
    return a.usefulness != b.usefulness ? a.usefulness < b.usefulness : a.last_used < b.last_used;
  });
  const int64_t enough = options_.max_bytes - options_.max_bytes / 16;
  for (const Idle& one : idle) {
    if (bytes_.load(std::memory_order_relaxed) <= enough) break;
    Evict(one.prompt);
  }
  return !OverBudget();
}

void TreeCache::Evict(absl::Span<const int32_t> prompt) {
  const auto found = prompts_.find(prompt);
  AddBytes(-found->second.tree->bytes());
  // The tree owns the key, so it must live until the entry is gone.
  const std::unique_ptr<PromptTree> tree = std::move(found->second.tree);
  prompts_.erase(found);
  ++evicted_prompts_;
}

}  // namespace baton::rollout
