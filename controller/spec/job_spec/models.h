// The models that a spec names.
#ifndef BATON_CONTROLLER_SPEC_JOB_SPEC_MODELS_H_
#define BATON_CONTROLLER_SPEC_JOB_SPEC_MODELS_H_

#include <string>
#include <utility>
#include <vector>

#include "baton/v1/job_spec.pb.h"

namespace baton::controller {

/// Each model of the spec by its field, e.g. "critic.model"; the job's own first, then those of the
/// sections that the spec has.
std::vector<std::pair<std::string, v1::ModelSpec*>> ModelsOf(v1::JobSpec* spec);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_SPEC_JOB_SPEC_MODELS_H_
