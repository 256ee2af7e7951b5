// The transition from the layout of training to that of generation on the same ranks: the methods,
// and the groups of ranks (HybridFlow, arXiv 2409.19256 §5.3).
#ifndef BATON_SDK_COMMON_PARALLEL_TRANSITION_H_
#define BATON_SDK_COMMON_PARALLEL_TRANSITION_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "sdk/common/parallel/rank_layout.h"

namespace baton {

enum class TransitionMethod {
  /// Every rank gathers the whole model from all p t d ranks, each of which trained 1 / (p t d) of
  /// it (parameters divided among data ranks too, as by DeepSpeed's ZeRO stage 3).
  kGatherAll,
  /// Every rank gathers the whole model from the p t ranks of its copy.
  kGatherTensor,
  /// Every rank gathers its generation shard within its micro-DP group, around its training shard.
  kHybrid,
};

inline constexpr TransitionMethod kTransitionMethods[] = {
    TransitionMethod::kGatherAll, TransitionMethod::kGatherTensor, TransitionMethod::kHybrid};

/// "gather_all", "gather_tp", "hybrid"
absl::string_view TransitionMethodName(TransitionMethod method);

/// The micro-DP group of `rank`, ascending: a rank's place in it is its MicroDataRank, and the
/// order is that of the training shards within the generation shard.
std::vector<int> MicroDataRanks(const RankLayout& layout, int rank);

/// The ranks that make a generation replica's stage with `rank`, by generation tensor rank: one of
/// each micro-DP group.
std::vector<int> GenerationTensorRanks(const RankLayout& layout, int rank);

/// The paper's notation, p-t-d_p_g-t_g-d_g-d: "1-4-2_1-2-2-2".
std::string LayoutName(const RankLayout& layout);

}  // namespace baton

#endif  // BATON_SDK_COMMON_PARALLEL_TRANSITION_H_
