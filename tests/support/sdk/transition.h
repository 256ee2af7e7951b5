// The costs of a transition by the formulas of HybridFlow (arXiv 2409.19256, its table of
// overheads), with which tests and benches compare plans and measurements.
//
// M are the bytes of the parameters that tensor ranks divide; those which every tensor rank holds
// whole (norms) count apart.
#ifndef BATON_TESTS_SUPPORT_SDK_TRANSITION_H_
#define BATON_TESTS_SUPPORT_SDK_TRANSITION_H_

#include "sdk/common/parallel/transition.h"

namespace baton {

/// The costs of one rank, as fractions of M.
struct TransitionFractions {
  double received = 0;   ///< Over the transport.
  double peak = 0;       ///< Gathered parameters, at their largest.
  double redundant = 0;  ///< Training parameters kept beside the gathered ones.
};

///              received            peak             redundant
///  gather_all  (tpd - 1) / (tpd)   1                1 / (tpd)
///  gather_tp   (tp - 1) / (tp)     1                1 / (tp)
///  hybrid      (d_g - 1) / (tp)    1 / (t_g p_g)    0
/// `layout` is valid.
inline TransitionFractions TransitionFormula(const RankLayout& layout, TransitionMethod method) {
  const double all = layout.world_size(), copy = layout.pipeline * layout.tensor;
  switch (method) {
    case TransitionMethod::kGatherAll:
      return {(all - 1) / all, 1, 1 / all};
    case TransitionMethod::kGatherTensor:
      return {(copy - 1) / copy, 1, 1 / copy};
    case TransitionMethod::kHybrid:
      return {(layout.micro_data() - 1) / copy,
              1.0 / (layout.generation_tensor * layout.generation_pipeline), 0};
  }
  return {};
}

}  // namespace baton

#endif  // BATON_TESTS_SUPPORT_SDK_TRANSITION_H_
