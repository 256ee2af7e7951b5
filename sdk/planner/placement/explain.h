// The reason why a partition was not chosen, in words.
#ifndef BATON_SDK_PLANNER_PLACEMENT_EXPLAIN_H_
#define BATON_SDK_PLANNER_PLACEMENT_EXPLAIN_H_

#include <string>

#include "sdk/planner/placement/pool_costs.h"
#include "sdk/planner/placement/search.h"

namespace baton::placement {

/// "training +8.20 s, generation -1.10 s": what is longer first.
std::string ExplainSlower(const Plan& best, const Plan& other);

/// "does not fit: its pools need 8 + 16 = 24 devices or more; critic+reward on 8 lacks 12.0 GB a
/// device".
std::string ExplainMisfit(const Problem& problem, const Partition& partition, PoolCosts* costs);

/// Says what the nearest plan lacks, and what would help.
std::string ExplainNothingFits(const Problem& problem, const Restriction& restriction,
                               const SearchResult& result, PoolCosts* costs);

}  // namespace baton::placement

#endif  // BATON_SDK_PLANNER_PLACEMENT_EXPLAIN_H_
