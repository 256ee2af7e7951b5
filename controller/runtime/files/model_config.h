// Reading of a model's config.json, so that the controller refuses at submit what a worker would
// refuse later.
#ifndef BATON_CONTROLLER_RUNTIME_FILES_MODEL_CONFIG_H_
#define BATON_CONTROLLER_RUNTIME_FILES_MODEL_CONFIG_H_

#include <set>
#include <string>
#include <vector>

#include "baton/v1/error.pb.h"
#include "baton/v1/job_spec.pb.h"
#include "sdk/common/schema/model_config.h"

namespace baton::controller {

/// The problem with the file `folder`/config.json: it is missing, is not a regular file, or has
/// more than 1 MiB. Empty: it may be read. Opens nothing.
std::string ModelConfigProblem(const std::string& folder);

/// Reads `folder`/config.json, for which ModelConfigProblem is empty, into a sketch. Missing fields
/// stay empty, and all fields if the file is not JSON: the worker then reports the problem.
ModelConfig ReadModelConfig(const std::string& folder);

/// Features that a worker must promise to load the model of this folder
/// (sdk/common/contracts/worker_features.h): the feature of its model_type, and that of its
/// tokenizer class in tokenizer_config.json.
std::set<std::string> ModelFeaturesOf(const std::string& folder);

/// Finds models that do not fit the spec: tensor parallelism does not divide the heads, prompt and
/// response exceed the positions, a reward or cost model has no scalar head. Paths of the spec are
/// resolved.
std::vector<v1::FieldViolation> CheckModelConfigs(const v1::JobSpec& effective);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_FILES_MODEL_CONFIG_H_
