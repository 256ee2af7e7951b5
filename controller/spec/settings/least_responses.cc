#include "controller/spec/settings/least_responses.h"

#include <algorithm>

#include "controller/algorithms/estimator_spec.h"
#include "sdk/common/schema_spec/spec_fields.h"

namespace baton::controller {

// An estimator that compares responses of a prompt, and a score over the group, need two of them.
uint32_t LeastResponses(const v1::JobSpec& spec, const v1::Dataflow& dataflow) {
  if (spec.rollout().n() < 2) return 1;
  const bool over_group =
      std::any_of(dataflow.score().begin(), dataflow.score().end(),
                  [](const v1::ScoreNode& node) { return node.over() == "group"; });
  if (over_group) return 2;
  const auto options = ToOptions(dataflow.advantage().options());
  if (!options.ok()) return 1;  // check_dataflow.h says so
  const auto check = algorithms::CheckEstimator(dataflow.advantage().estimator(), *options);
  return check.needs.groups ? 2 : 1;
}

}  // namespace baton::controller
