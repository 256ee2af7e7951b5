// The options of a role's optimizer: AdamW and its learning rate.
// workers/engine/training/optimizer.h has the formulas.
#ifndef BATON_SDK_COMMON_SCHEMA_OPTIMIZER_OPTIONS_H_
#define BATON_SDK_COMMON_SCHEMA_OPTIMIZER_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "sdk/common/schema/options.h"

namespace baton {

/// One member for each row of optimizer_options.def. Steps are steps of the job.
struct OptimizerSpec {
#define BATON_OPTIMIZER_OPTION(name, type, default_value, limits, meaning) \
  type name = default_value;
#include "sdk/common/schema/optimizer_options.def"
#undef BATON_OPTIMIZER_OPTION
  /// The step at which a decay of the learning rate ends; unused by "constant". It is no setting:
  /// it follows from the length of the job.
  int64_t total_steps = 0;
};

const std::vector<OptionField<OptimizerSpec>>& OptimizerOptionTable();

}  // namespace baton

#endif  // BATON_SDK_COMMON_SCHEMA_OPTIMIZER_OPTIONS_H_
