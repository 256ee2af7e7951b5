// The plan by which ranks change from training to generation: which rank sends which boxes to which
// rank, and what each rank then holds. Pure: depends only on the layout and the tensors' shapes.
#ifndef BATON_WORKERS_HYBRID_TRANSITION_PLAN_H_
#define BATON_WORKERS_HYBRID_TRANSITION_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "relay/weights/box.h"
#include "sdk/common/parallel/transition.h"

namespace baton::hybrid {

/// A tensor and how training and generation divide it.
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

  /// The stage that holds `depth`, of P = `stages` stages.
  int StageOf(int64_t depth, int stages) const;
};

/// Bytes of divided tensors, and of whole tensors.
struct DividedBytes {
  int64_t divided = 0;
  int64_t whole = 0;
};

/// A box of tensor `tensor` (an index) that rank `from` sends. Under gather_all, the box is a range
/// of the tensor's flattened elements.
struct Receive {
  int from = 0;
  int tensor = 0;
  relay::Box box;
};

struct RankTransition {
  std::vector<Receive> receives;
  DividedBytes received;
  DividedBytes peak;  ///< Gathered bytes, the rank's own part included.
  /// Training parameters that are held in addition to the gathered ones. A method that gathers into
  /// separate memory keeps all of them; the hybrid engine keeps only those that are not part of the
  /// generation shard.
  DividedBytes redundant;
};

/// The transition of one rank. InvalidArgument: a bad layout or rank, or a tensor without t
/// training and t_g generation boxes. FailedPrecondition: no rank of the group holds some elements
/// that the rank needs.
absl::StatusOr<RankTransition> PlanRankTransition(const DividedModel& model,
                                                  const RankLayout& layout, TransitionMethod method,
                                                  int rank);

/// Bytes of the whole model.
DividedBytes ModelBytes(const DividedModel& model);

}  // namespace baton::hybrid

#endif  // BATON_WORKERS_HYBRID_TRANSITION_PLAN_H_
