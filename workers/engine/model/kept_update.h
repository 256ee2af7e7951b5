// The part of a model's update that a coarser type of its weights keeps.
#ifndef BATON_WORKERS_ENGINE_MODEL_KEPT_UPDATE_H_
#define BATON_WORKERS_ENGINE_MODEL_KEPT_UPDATE_H_

#include <torch/torch.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace baton::engine {

struct KeptUpdate {
  int64_t changed = 0;  ///< Weights of the trained model that differ from those of its base.
  int64_t kept = 0;     ///< Weights that still differ once both are rounded to the type.
};

/// Compares two model directories, tensor by tensor; a tensor that one of them lacks, or has in
/// another shape, does not count. Small steps are lost in bfloat16, which has 8 bits of precision:
/// a weight stays as it was unless training moved it by about 1/256 of itself. Errors are those of
/// OpenWeights.
absl::StatusOr<KeptUpdate> CompareUpdate(const std::string& trained, const std::string& base,
                                         torch::Dtype dtype);

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_MODEL_KEPT_UPDATE_H_
