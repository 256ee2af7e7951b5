// The size of a model, from its entry in a spec.
#ifndef BATON_SDK_PLANNER_PLACEMENT_SPEC_MODEL_FILES_H_
#define BATON_SDK_PLANNER_PLACEMENT_SPEC_MODEL_FILES_H_

#include <string>

#include "absl/status/statusor.h"
#include "baton/v1/job_spec.pb.h"
#include "sdk/planner/placement/model_cost.h"

namespace baton::placement {

/// A Hugging Face config.json; the model is named after its folder. NotFound: it cannot be opened.
/// InvalidArgument: it is no decoder's.
absl::StatusOr<PlannedModel> ReadModelFile(const std::string& file);

/// A model of random weights; absent fields have the defaults of ModelInitSpec.
PlannedModel ModelOfInit(const v1::ModelInitSpec& init);

}  // namespace baton::placement

#endif  // BATON_SDK_PLANNER_PLACEMENT_SPEC_MODEL_FILES_H_
