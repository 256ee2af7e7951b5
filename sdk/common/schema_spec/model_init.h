// A model of random weights, from its description in a spec.
#ifndef BATON_SDK_COMMON_SCHEMA_SPEC_MODEL_INIT_H_
#define BATON_SDK_COMMON_SCHEMA_SPEC_MODEL_INIT_H_

#include <cstdint>

#include "baton/v1/job_spec.pb.h"
#include "sdk/common/schema/model_config.h"

namespace baton {

/// Fills in the sizes that are absent.
void FillModelInit(v1::ModelInitSpec* init);

/// The configuration of such a model, a Llama of `vocab_size` tokens; absent sizes have their
/// defaults. It need not be a valid one.
ModelConfig InitConfig(const v1::ModelInitSpec& init, int64_t vocab_size);

}  // namespace baton

#endif  // BATON_SDK_COMMON_SCHEMA_SPEC_MODEL_INIT_H_
