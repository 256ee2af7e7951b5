// The division of work of unequal size into parts of nearly equal cost.
//
// Pure functions without libtorch: trainers divide a mini-batch among data-parallel ranks and into
// micro-batches with them, and a controller may divide a batch in the same way.
#ifndef BATON_SDK_COMMON_PARALLEL_BALANCE_H_
#define BATON_SDK_COMMON_PARALLEL_BALANCE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace baton {

/// The cost of a sequence: its tokens pass through matrix products (linear), and look at those
/// before them (quadratic). In any unit; only ratios count.
struct SequenceCost {
  double per_token = 1;
  double per_token_squared = 0;

  double Of(int64_t tokens) const {
    const double n = static_cast<double>(tokens);
    return per_token * n + per_token_squared * n * n;
  }
};

/// Karmarkar and Karp's largest differencing method for `parts` >= 1 parts: the two partial
/// divisions whose parts differ most are merged, the largest part of one with the smallest of the
/// other, until one division is left. Costs are finite and at least 0. Returns the indices of each
/// part, ascending; parts may be empty. A function of the arguments alone, the same everywhere.
std::vector<std::vector<int64_t>> BalanceByCost(absl::Span<const double> costs, int parts);

/// The cost of each part.
std::vector<double> PartCosts(absl::Span<const double> costs,
                              absl::Span<const std::vector<int64_t>> parts);

/// Largest cost over mean cost: 1 is perfect, and what an all-zero division has.
double Imbalance(absl::Span<const double> part_costs);

}  // namespace baton

#endif  // BATON_SDK_COMMON_PARALLEL_BALANCE_H_
