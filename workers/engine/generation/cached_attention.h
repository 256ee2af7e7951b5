// Attention of new tokens over the keys and values that a KvCache holds: prefill and decoding.
#ifndef BATON_WORKERS_ENGINE_GENERATION_CACHED_ATTENTION_H_
#define BATON_WORKERS_ENGINE_GENERATION_CACHED_ATTENTION_H_

#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <vector>

#include "workers/engine/kernels/kv_cache.h"
#include "workers/engine/model/model.h"

namespace baton::engine {

/// Consecutive rows of the batch that are tokens of one sequence: either consecutive tokens, or the
/// tree of a draft.
///
/// A sequence is a prompt, whose blocks may serve several sequences, and its own tokens, which
/// begin in a block of their own. So sharing a prompt copies nothing and changes no result.
struct CachedRows {
  int64_t first_row = 0;
  int64_t num_rows = 0;
  // The keys and values of row i are stored at this position of the sequence plus i.
  int64_t first_position = 0;
  int64_t prompt_length = 0;  // tokens that lie in prompt_blocks
  const std::vector<int32_t>* prompt_blocks = nullptr;
  const std::vector<int32_t>* own_blocks = nullptr;  // positions from prompt_length on
  // True: the results of all rows are used, so a row of NaN must not spoil the rows before it.
  // False: the last row's alone is used, which attends to all the others.
  bool each_row_counts = false;
  // Null: row i follows row i - 1. For a tree: row i follows row parents[i], which is less than i,
  // or what is before the run if parents[i] is -1. The list may be longer than the run. A tree lies
  // in own_blocks.
  const std::vector<int32_t>* parents = nullptr;
};

/// Writes the keys and values of the batch's rows to their blocks, then lets each row attend to
/// all positions before its run, and in its run to the rows that it follows and to itself; of these
/// tokens, in a layer with a window, to the last ones.
///
/// The nodes of a tree are stored side by side, so a tree takes as much room as a chain; who draws
/// from it moves the accepted path together (KvCache::MoveTokens). A row of a tree yields what it
/// yields where the path to it is stored in place.
///
/// On a CPU a kernel walks each row's blocks in order: a row's result then depends on its own
/// sequence alone, bit for bit, whatever else is in the batch. It computes in float32, and rounds
/// the results of narrower types. In float64 and elsewhere libtorch operators work on gathered
/// blocks.
class CachedAttention : public AttentionContext {
 public:
  /// `cache` must outlive this.
  explicit CachedAttention(KvCache* cache);
  ~CachedAttention() override;

  /// Sets the rows of the next forward pass. Runs are disjoint, in order of first_row; a prompt's
  /// run comes before the runs that attend to it, a tree's run after the sequence's others, and no
  /// two runs write the same position. Every row is in a run. The lists that runs point
  /// to must stay as they are until the pass is over.
  void Begin(std::vector<CachedRows> runs);

  torch::Tensor Attend(const AttentionLayer& layer, const torch::Tensor& q, const torch::Tensor& k,
                       const torch::Tensor& v) override;

 private:
  struct GatherGroup;
  struct RowTokens;

  torch::Tensor AttendWithKernel(const AttentionLayer& layer, const torch::Tensor& q,
                                 const torch::Tensor& k, const torch::Tensor& v);
  torch::Tensor AttendWithOperators(const AttentionLayer& layer, const torch::Tensor& q,
                                    const torch::Tensor& k, const torch::Tensor& v);
  void PlanWrites(const torch::Device& device);
  std::vector<GatherGroup> PlanGather(int64_t window, const torch::Device& device) const;

  KvCache* const cache_;

  // The rows of this pass.
  std::vector<CachedRows> runs_;
  int64_t num_rows_ = 0;         // up to the end of the last run
  std::vector<RowTokens> rows_;  // of the runs, in order

  // For the operators; built at the first layer of a pass.
  bool planned_ = false;
  torch::Tensor written_rows_, written_blocks_, written_offsets_;
  std::map<int64_t, std::vector<GatherGroup>> groups_;  // by window
};

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_GENERATION_CACHED_ATTENTION_H_
