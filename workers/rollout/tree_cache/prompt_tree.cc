#include "workers/rollout/tree_cache/prompt_tree.h"

#include <algorithm>
#include <cmath>

namespace baton::rollout {
namespace {

// A new weight is at most 2^this, so that a float holds 2^60 of them.
constexpr double kLargestExponent = 64;
constexpr double kSmallestExponent = -90;

}  // namespace

PromptTree::PromptTree(absl::Span<const int32_t> prompt, int depth, double half_life_updates,
                       int64_t most_bytes)
    : tree_(depth),
      prompt_(prompt.begin(), prompt.end()),
      half_life_updates_(half_life_updates),
      most_bytes_(most_bytes) {
  absl::MutexLock lock(&mu_);
  bytes_ = tree_.capacity_bytes();
}

void PromptTree::Start(GrowingText* text, int64_t actor_updates, int64_t* bytes_grown) {
  absl::MutexLock lock(&mu_);
  if (!used_) base_updates_ = actor_updates;
  used_ = true;
  const auto age = static_cast<double>(actor_updates - base_updates_);
  if (half_life_updates_ > 0 && age / half_life_updates_ > kLargestExponent) {
    Rebase(actor_updates);
  }
  text->weight = WeightOf(actor_updates);
  tree_.Start(text);
  tree_.Append(text, kStartToken);
  *bytes_grown = TakeGrowth();
}

bool PromptTree::Append(GrowingText* text, absl::Span<const int32_t> tokens, int64_t* bytes_grown) {
  absl::MutexLock lock(&mu_);
  if (tree_.full()) return false;
  for (const int32_t token : tokens) {
    if (tree_.Append(text, token)) predicted_ += text->weight;
  }
  tokens_ += static_cast<int64_t>(tokens.size());
  TrimIfLarge();
  *bytes_grown = TakeGrowth();
  return true;
}

void PromptTree::End(GrowingText* text, int64_t* bytes_grown) {
  absl::MutexLock lock(&mu_);
  tree_.End(text);
  TrimIfLarge();
  *bytes_grown = TakeGrowth();
}

void PromptTree::ProposeDraft(GrowingText* text, int budget, Draft* draft, double least_score) {
  absl::MutexLock lock(&mu_);
  tree_.ProposeDraft(text, budget, draft, least_score);
}

double PromptTree::LogUsefulness() const {
  absl::MutexLock lock(&mu_);
  double log = std::log2(predicted_) - std::log2(static_cast<double>(bytes_));
  if (half_life_updates_ > 0) log += static_cast<double>(base_updates_) / half_life_updates_;
  return log;
}

int64_t PromptTree::tokens() const {
  absl::MutexLock lock(&mu_);
  return tokens_;
}

int64_t PromptTree::bytes() const {
  absl::MutexLock lock(&mu_);
  return OwnBytes() + bytes_;
}

int64_t PromptTree::CountBytes() const {
  absl::MutexLock lock(&mu_);
  return OwnBytes() + tree_.capacity_bytes();
}

float PromptTree::WeightOf(int64_t actor_updates) const {
  if (half_life_updates_ == 0) return 1;
  const auto age = static_cast<double>(actor_updates - base_updates_);
  return static_cast<float>(std::exp2(std::max(age / half_life_updates_, kSmallestExponent)));
}

void PromptTree::Rebase(int64_t actor_updates) {
  const double factor =
      std::exp2(static_cast<double>(base_updates_ - actor_updates) / half_life_updates_);
  tree_.Scale(static_cast<float>(factor));
  predicted_ *= factor;
  base_updates_ = actor_updates;
}

// At least as many tokens are dropped as are appended anew, so the latter is amortised.
void PromptTree::TrimIfLarge() {
  if (tree_.capacity_bytes() <= most_bytes_) return;
  const int64_t growing = tree_.growing_tokens();
  const int64_t half = (tree_.ended_tokens() + growing) / 2;
  if (growing > half) return;
  const SuffixTree::Forgotten forgotten = tree_.KeepNewest(half - growing);
  const int64_t before = tokens_;
  // Each text began with kStartToken.
  tokens_ -= forgotten.tokens - forgotten.texts;
  if (before > 0) predicted_ *= static_cast<double>(tokens_) / static_cast<double>(before);
}

int64_t PromptTree::TakeGrowth() {
  const int64_t before = bytes_;
  bytes_ = tree_.capacity_bytes();
  return bytes_ - before;
}

int64_t PromptTree::OwnBytes() const {
  return static_cast<int64_t>(sizeof(PromptTree) + prompt_.capacity() * sizeof(int32_t));
}

}  // namespace baton::rollout
