#include "sdk/common/schema/optimizer_options.h"

namespace baton {

const std::vector<OptionField<OptimizerSpec>>& OptimizerOptionTable() {
  static const auto* const table = new std::vector<OptionField<OptimizerSpec>>{
#define BATON_OPTIMIZER_OPTION(name, type, default_value, limits, meaning) \
  {#name, ~0u, &OptimizerSpec::name, limits, meaning},
#include "sdk/common/schema/optimizer_options.def"
#undef BATON_OPTIMIZER_OPTION
  };
  return *table;
}

}  // namespace baton
