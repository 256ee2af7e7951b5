// What the controller reads of a model's config.json, to refuse at submit what a worker would
// refuse later.
#ifndef BATON_CONTROLLER_RUNTIME_MODEL_CONFIG_H_
#define BATON_CONTROLLER_RUNTIME_MODEL_CONFIG_H_

#include <string>
#include <vector>

#include "baton/v1/error.pb.h"
#include "baton/v1/job_spec.pb.h"

namespace baton::controller {

struct ModelConfig {
  int heads = 0;             ///< num_attention_heads; 0: the file does not say.
  int key_heads = 0;         ///< num_key_value_heads, by default as many as heads.
  std::string architecture;  ///< The first of `architectures`; "": the file does not say.
};

/// Reads `folder`/config.json. What is missing, or is no JSON, is left empty: the worker tells.
ModelConfig ReadModelConfig(const std::string& folder);

/// Models that cannot do what the spec asks of them: heads that tensor parallelism does not divide,
/// a reward or cost model without a scalar head. Paths of the spec are resolved.
std::vector<v1::FieldViolation> CheckModelConfigs(const v1::JobSpec& effective);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_MODEL_CONFIG_H_
