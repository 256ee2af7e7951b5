// The choice of the requests that advance in a step, and of the requests that give them memory.
// Private to the generator.
#ifndef BATON_WORKERS_ENGINE_GENERATION_GENERATOR_SCHEDULER_H_
#define BATON_WORKERS_ENGINE_GENERATION_GENERATOR_SCHEDULER_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "workers/engine/generation/cached_attention.h"
#include "workers/engine/generation/draft_tree.h"
#include "workers/engine/generation/generate_request.h"
#include "workers/engine/generation/prompt_cache.h"
#include "workers/engine/generation/stop_checker.h"
#include "workers/engine/kernels/kv_cache.h"
#include "workers/engine/kernels/philox.h"

namespace baton::engine {

/// A live request.
struct Sequence {
  Sequence(GenerateRequest r, const DecodeFunction* decode)
      : request(std::move(r)), uniforms(request.key), stops(&request.params, decode) {}

  const GenerateRequest request;
  const UniformStream uniforms;
  StopChecker stops;
  std::vector<int32_t> response;  // resumed and generated tokens
  bool chain_failed = false;      // a token was drawn that request.draft has not at its place

  // While running.
  CachedPrompt* prompt = nullptr;
  std::vector<int32_t> blocks;  // of the response
  int64_t computed = 0;         // response tokens whose keys and values are in `blocks`

  int64_t pending() const { return static_cast<int64_t>(response.size()) - computed; }
  /// The part of request.draft that comes after `response`; empty once it has failed.
  absl::Span<const int32_t> chain() const;
  /// Tokens that may still be computed: the last token of a response is drawn but never computed.
  int64_t most_to_compute() const {
    return request.params.max_new_tokens - 1 - static_cast<int64_t>(response.size());
  }
};

/// The rows of one forward pass, and what to draw from its result.
struct StepPlan {
  struct Draw {
    Sequence* sequence;
    int64_t row;  // whose logits; -1: those of the prompt's last_hidden
    // After the response's tokens comes one more token for each node of the draft that was drawn
    // and has a row. The first nodes have rows, which follow each other in the order of nodes.
    DraftTree draft;
    int64_t first_draft_row = 0;
    int64_t draft_rows = 0;
  };
  struct CompletedPrompt {
    CachedPrompt* prompt;
    int64_t row;  // whose hidden state becomes last_hidden, before any draw
  };
  std::vector<int64_t> tokens;
  std::vector<int64_t> positions;
  std::vector<CachedRows> runs;
  std::vector<CompletedPrompt> completed_prompts;
  std::vector<Draw> draws;       // in the order in which requests started
  int64_t prefilled_tokens = 0;  // rows that are no decoding
};

/// Drafts for one step: the tree of each request that has one. They hold no token out of the
/// vocabulary, and no node of a depth of most_to_compute() or more.
using Proposals = std::map<uint64_t, DraftTree>;

/// Owns live requests and divides blocks among them. Without libtorch's operators.
class Scheduler {
 public:
  /// `max_running`: requests that run at once. `prefill_chunk_tokens`: rows of a step besides those
  /// of decoding requests.
  Scheduler(KvCache* cache, int64_t max_running, int64_t prefill_chunk_tokens);

  /// Blocks that a request needs when it is as long as it may get, nothing being shared.
  static int64_t WorstCaseBlocks(const GenerateRequest& request);

  /// `sequence` must not be complete, and must fit the cache when alone.
  void Add(std::unique_ptr<Sequence> sequence);

  /// Starts waiting requests, in their order, while there is room for them.
  void Admit();

  /// Finds blocks for what runs (taking them from the youngest if need be), and lists the rows to
  /// compute, which count as computed from here on, but for draft rows. The plan holds until the
  /// next call of any other method. A request's own draft goes before a proposal.
  StepPlan Plan(Proposals proposals);

  /// To be called when a running sequence has been given the tokens of a plan with draft rows. The
  /// rows of `path`, nodes of the draft in order, count as computed from here on, the others as
  /// never planned. Adds to `moves` what brings those rows to their places in the cache.
  void KeepDraftRows(Sequence* sequence, absl::Span<const int32_t> path,
                     std::vector<KvCache::Move>* moves);

  /// The live request with this id; null if there is none.
  const Sequence* Find(uint64_t id) const;

  /// Running requests that get a token in the next step, unless memory is short, and may go on
  /// after it; oldest first.
  std::vector<const Sequence*> Decoding() const;

  /// Frees what a request holds and forgets it. False if there is none with this id.
  bool Remove(uint64_t id);

  /// Removes all requests and forgets all prompts.
  void Clear();

  /// Forgets prompts that no request uses.
  void EvictPrompts() { prompts_.EvictAll(); }

  /// False if a request may yet have to give up its memory to another. Once this is true, it stays
  /// true until a request is added. A response with drafts takes memory earlier than without, and
  /// gives it back earlier. If drafts are made only while this is true, no request gives up its
  /// memory because of them, as long as none is added.
  bool memory_suffices() const;

  int64_t running() const { return static_cast<int64_t>(running_.size()); }
  int64_t waiting() const { return static_cast<int64_t>(waiting_.size()); }
  /// True if a waiting request has been given tokens already.
  bool has_begun() const;
  int64_t unused_prompt_blocks() const { return prompts_.unused_blocks(); }
  int64_t shared_prompt_tokens() const { return shared_prompt_tokens_; }
  int64_t preemptions() const { return preemptions_; }

 private:
  bool Start(Sequence* sequence);
  void Stop(Sequence* sequence);
  void PlanPrompt(CachedPrompt* prompt, int64_t* budget, StepPlan* plan);
  void PlanResponse(Sequence* sequence, int64_t* budget, StepPlan* plan);
  void PlanDrafts(int64_t budget, Proposals proposals, StepPlan* plan);
  bool GrowTo(Sequence* sequence, int64_t tokens);
  int64_t GrowFromSpareBlocks(Sequence* sequence, int64_t tokens);
  bool MakeRoom(const Sequence* sequence);
  std::vector<int32_t> AllocatePromptBlocks(int64_t count);

  KvCache* const cache_;
  const int64_t max_running_;
  const int64_t prefill_chunk_tokens_;

  PromptCache prompts_;
  std::deque<std::unique_ptr<Sequence>> waiting_;   // next first
  std::vector<std::unique_ptr<Sequence>> running_;  // oldest first
  int64_t worst_case_blocks_ = 0;                   // of all live requests together
  int64_t largest_worst_case_ = 0;                  // of those since there was none
  int64_t shared_prompt_tokens_ = 0;
  int64_t preemptions_ = 0;
};

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_GENERATION_GENERATOR_SCHEDULER_H_
