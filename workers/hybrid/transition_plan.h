// Which rank sends which boxes to which when ranks that trained a model begin to generate, and what
// each rank then holds. Pure: made from the layout and the tensors' shapes alone.
#ifndef BATON_WORKERS_HYBRID_TRANSITION_PLAN_H_
#define BATON_WORKERS_HYBRID_TRANSITION_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "relay/weights/box.h"
#include "sdk/parallel/transition.h"

namespace baton::hybrid {

/// A tensor and how both layouts divide it.
struct DividedTensor {
  std::string name;
  std::vector<int64_t> shape;
  int64_t element_bytes = 4;
  int64_t depth = 0;                   ///< Place in the pipeline, in [0, DividedModel::depths).
  bool whole = false;                  ///< Not divided: every tensor rank holds all of it.
  std::vector<relay::Box> training;    ///< By tensor rank, t of them.
  std::vector<relay::Box> generation;  ///< By generation tensor rank, t_g of them.
};

/// Stage s of P holds the tensors with depth in [s depths / P, (s + 1) depths / P).
struct DividedModel {
  std::vector<DividedTensor> tensors;
  int64_t depths = 1;

  /// Of P = `stages`, which holds `depth`.
  int StageOf(int64_t depth, int stages) const;
};

/// Bytes of tensors that are divided, and of those that are not.
struct DividedBytes {
  int64_t divided = 0;
  int64_t whole = 0;
};

/// A box of tensor `tensor` that rank `from` sends. Under gather_all, of the tensor as one row of
/// elements.
struct Receive {
  int from = 0;
  int tensor = 0;
  relay::Box box;
};

struct RankTransition {
  std::vector<Receive> receives;
  DividedBytes received;
  DividedBytes peak;  ///< What it has gathered, its own part included.
  /// Training parameters beside what it has gathered. A gather that is undone after generation
  /// keeps all of them; the hybrid engine those that are not part of the generation shard.
  DividedBytes redundant;
};

/// What one rank of the layout does. InvalidArgument: a bad layout or rank, or boxes that are not t
/// and t_g. FailedPrecondition: elements that the rank needs and no rank of its group has.
absl::StatusOr<RankTransition> PlanRankTransition(const DividedModel& model,
                                                  const RankLayout& layout, TransitionMethod method,
                                                  int rank);

/// That of every rank.
absl::StatusOr<std::vector<RankTransition>> PlanTransition(const DividedModel& model,
                                                           const RankLayout& layout,
                                                           TransitionMethod method);

/// Bytes of the whole model.
DividedBytes ModelBytes(const DividedModel& model);

}  // namespace baton::hybrid

#endif  // BATON_WORKERS_HYBRID_TRANSITION_PLAN_H_
