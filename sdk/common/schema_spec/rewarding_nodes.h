// The score nodes of a dataflow that rewards come from.
#ifndef BATON_SDK_COMMON_SCHEMA_SPEC_REWARDING_NODES_H_
#define BATON_SDK_COMMON_SCHEMA_SPEC_REWARDING_NODES_H_

#include <map>
#include <string>
#include <vector>

#include "baton/v1/job_spec.pb.h"

namespace baton {

/// The columns that a response's reward is the sum of, with their weights: advantage.rewards, or
/// `reward` alone if there is none.
std::map<std::string, double> RewardWeights(const v1::Dataflow& dataflow);

/// Whether each score node, in order, makes such a column, or one that such a node needs. An
/// evaluation runs these and no others. Pure.
std::vector<bool> RewardingNodes(const v1::Dataflow& dataflow);

}  // namespace baton

#endif  // BATON_SDK_COMMON_SCHEMA_SPEC_REWARDING_NODES_H_
