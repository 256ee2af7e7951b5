#include "workers/engine/generation/prompt_cache.h"

#include <utility>

namespace baton::engine {

CachedPrompt* PromptCache::Acquire(const std::vector<int32_t>& tokens) {
  const auto found = prompts_.find(tokens);
  if (found == prompts_.end()) return nullptr;
  CachedPrompt* prompt = &found->second;
  if (prompt->users++ == 0) {
    unused_.remove(prompt);
    unused_blocks_ -= static_cast<int64_t>(prompt->blocks.size());
  }
  return prompt;
}

CachedPrompt* PromptCache::Insert(const std::vector<int32_t>& tokens, std::vector<int32_t> blocks) {
  CachedPrompt& prompt = prompts_[tokens];
  prompt.tokens = tokens;
  prompt.blocks = std::move(blocks);
  prompt.users = 1;
  return &prompt;
}

void PromptCache::Release(CachedPrompt* prompt) {
  if (--prompt->users > 0) return;
  if (!prompt->complete() || prompt->spoiled) {
    Free(prompts_.find(prompt->tokens));
    return;
  }
  unused_.push_back(prompt);
  unused_blocks_ += static_cast<int64_t>(prompt->blocks.size());
}

bool PromptCache::EvictOne() {
  if (unused_.empty()) return false;
  CachedPrompt* prompt = unused_.front();
  unused_.pop_front();
  unused_blocks_ -= static_cast<int64_t>(prompt->blocks.size());
  Free(prompts_.find(prompt->tokens));
  return true;
}

void PromptCache::EvictAll() {
  while (EvictOne()) {
  }
}

void PromptCache::Free(Prompts::iterator prompt) {
  cache_->Free(prompt->second.blocks);
  prompts_.erase(prompt);
}

}  // namespace baton::engine
