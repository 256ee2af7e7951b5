// A generator with continuous batching: requests enter and leave at any step.
#ifndef BATON_WORKERS_ENGINE_GENERATION_GENERATOR_H_
#define BATON_WORKERS_ENGINE_GENERATION_GENERATOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "workers/engine/generation/draft_stats.h"
#include "workers/engine/generation/draft_tree.h"
#include "workers/engine/generation/drafter.h"
#include "workers/engine/generation/generate_request.h"
#include "workers/engine/generation/stop_checker.h"
#include "workers/engine/model/model.h"

namespace baton::engine {

struct GeneratorOptions {
  int64_t kv_cache_bytes = int64_t{1} << 28;
  int64_t max_num_seqs = 128;  // requests in one forward pass
  // Prompt and resumed tokens per step, besides decoding; drafts may use what they leave.
  int64_t prefill_chunk_tokens = 512;
  // The most that the drafter may propose for one step, in nodes, shared by the requests that
  // decode. Each node costs a row of the forward pass. 0: the drafter is not asked.
  int64_t max_draft_nodes = 32;
  // Refuse a model whose log-probs a trainer cannot compute to the last bit: any but float32 on a
  // CPU.
  bool deterministic = false;
};

struct GeneratorStats {
  // Now.
  int64_t running = 0;
  int64_t waiting = 0;
  int64_t total_blocks = 0;
  int64_t free_blocks = 0;    // counting those of prompts that no request uses
  int64_t cached_blocks = 0;  // of prompts that no request uses
  int64_t block_bytes = 0;
  // Since creation.
  int64_t steps = 0;
  int64_t generated_tokens = 0;
  int64_t prefilled_tokens = 0;      // prompt and resumed tokens computed
  int64_t shared_prompt_tokens = 0;  // prompt tokens that a request found already computed or begun
  int64_t preemptions = 0;
  DraftStats drafts;
};

/// The calls to a generator between two steps. Ranks that share its model make the same calls
/// before the same step.
struct GeneratorCall {
  enum class Kind { kAdd, kCancel, kWeightsChanged, kDraft };
  Kind kind = Kind::kAdd;
  GenerateRequest request;  // kCancel, kDraft: its id alone
  DraftTree draft;          // kDraft alone
};

/// Runs a model over many requests at once. Each Step is one forward pass: a token for every
/// decoding request, and a chunk of the prompts and resumed tokens that still have to be computed.
/// A request with a draft gets as many tokens as its draft foretells, and one more. Drafts are
/// computed with what is left of the chunk, in blocks that no other request needs soon. A draft
/// comes with the request, from SetDraft or from a drafter.
///
/// Requests start in the order of Add, when memory for what they need now is free. When running
/// requests outgrow the budget, the youngest gives up its memory and continues later from its
/// tokens; the oldest always advances, so all finish. Requests with equal prompts share the
/// prompt's keys and values.
///
/// The response to a request is a function of (weights, prompt, params, key), and not of its draft
/// (draft_verification.h). On a CPU this holds bitwise, whatever else is in the batch, in float32
/// and in narrower types; elsewhere up to the rounding of products, which depends on the batch.
/// Being preempted, resumed or moved to another generator changes neither its draws nor, in those
/// types on equal CPUs, its bits.
///
/// One thread at a time.
class Generator {
 public:
  /// `model` must outlive this; its parameters may be changed in place between steps as
  /// OnWeightsChanged says. `decode` may be empty: requests with stop strings are then refused.
  /// InvalidArgument for options out of range.
  static absl::StatusOr<std::unique_ptr<Generator>> Create(CausalLM* model, DecodeFunction decode,
                                                           const GeneratorOptions& options);
  ~Generator();

  /// Queues a request. InvalidArgument: bad parameters or token ids, an empty prompt, more tokens
  /// than the model has positions. ResourceExhausted: it could never fit the KV cache.
  /// AlreadyExists: its id is live. A request whose resumed tokens are already a whole response
  /// finishes at the next step without new tokens.
  absl::Status Add(GenerateRequest request);

  /// Drops a request and frees its memory at once; the next step reports it as "cancelled".
  /// False if no such request is live.
  bool Cancel(uint64_t id);

  /// Gives a live request a draft for the next step alone; nonsense in it is left out
  /// (PruneDraft). It is not used if the request still follows its own draft, or gets no token in
  /// that step. False if no such request is live.
  bool SetDraft(uint64_t id, DraftTree draft);

  /// From now on every Step begins with SetDraft of what `drafter` proposes, for requests added
  /// from now on; but not while a live request may have to give up its memory. So a drafter changes
  /// no preemption of the requests that are live. Null: no drafter. It must outlive this, or be
  /// replaced. Among ranks that share a model, the leader alone has a drafter: the others hear of
  /// its drafts by kDraft.
  void SetDrafter(Drafter* drafter);

  /// Advances by one forward pass. Returns an update for each request that got a token or ended,
  /// in the order in which requests started. A request whose logits leave nothing to draw (NaN,
  /// infinity) ends alone, with "error" (INTERNAL), and its prompt is not kept for equal ones. An
  /// error of the step (of libtorch, of the model's ranks) drops every request; the generator is
  /// then idle and usable.
  absl::StatusOr<std::vector<GenerateUpdate>> Step();

  /// True if no request is live and no update is left to report.
  bool idle() const;

  /// Must be called after the model's parameters changed: forgets cached prompts.
  /// FailedPrecondition while a request has tokens of the old ones (those not begun may wait).
  absl::Status OnWeightsChanged();

  /// `announce` hears at the start of every Step of the calls that succeeded since the one before,
  /// in their order. Its exception is the step's error.
  using Announce = std::function<void(std::vector<GeneratorCall>)>;
  void SetAnnounce(Announce announce);

  GeneratorStats stats() const;

 private:
  struct Impl;
  explicit Generator(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_GENERATION_GENERATOR_H_
