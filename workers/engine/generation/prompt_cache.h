// Prompts whose keys and values are in the KvCache, each once however many requests have it.
#ifndef BATON_WORKERS_ENGINE_GENERATION_PROMPT_CACHE_H_
#define BATON_WORKERS_ENGINE_GENERATION_PROMPT_CACHE_H_

#include <torch/torch.h>

#include <cstdint>
#include <list>
#include <map>
#include <vector>

#include "workers/engine/kernels/kv_cache.h"

namespace baton::engine {

/// One prompt. It is complete once all its tokens were computed; its samples start from the hidden
/// state of its last token.
struct CachedPrompt {
  std::vector<int32_t> tokens;
  std::vector<int32_t> blocks;
  int64_t computed = 0;       // tokens whose keys and values are in `blocks`
  torch::Tensor last_hidden;  // [1, hidden_size], once complete
  int64_t users = 0;
  bool spoiled = false;  // what was computed may be wrong: freed when its last user leaves

  int64_t length() const { return static_cast<int64_t>(tokens.size()); }
  bool complete() const { return computed == length(); }
};

/// Owns the prompts and their blocks. A prompt without users stays, if complete, until its blocks
/// are needed. One thread at a time; pointers hold while the prompt has users.
class PromptCache {
 public:
  /// `cache` must outlive this.
  explicit PromptCache(KvCache* cache) : cache_(cache) {}

  /// The prompt with exactly these tokens, with one user more; nullptr if it is not cached.
  CachedPrompt* Acquire(const std::vector<int32_t>& tokens);

  /// Takes in a prompt which is not cached, nothing of it computed, and with one user. `blocks`
  /// must be enough for it.
  CachedPrompt* Insert(const std::vector<int32_t>& tokens, std::vector<int32_t> blocks);

  /// One user fewer. The last user's leaving frees a prompt that is not complete, or is spoiled.
  void Release(CachedPrompt* prompt);

  /// Frees the unused prompt that was used longest ago; false if every prompt has users.
  bool EvictOne();

  /// Frees every unused prompt.
  void EvictAll();

  /// Blocks that EvictAll would free.
  int64_t unused_blocks() const { return unused_blocks_; }

 private:
  using Prompts = std::map<std::vector<int32_t>, CachedPrompt>;

  void Free(Prompts::iterator prompt);

  KvCache* const cache_;
  Prompts prompts_;
  std::list<CachedPrompt*> unused_;  // used longest ago first
  int64_t unused_blocks_ = 0;
};

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_GENERATION_PROMPT_CACHE_H_
