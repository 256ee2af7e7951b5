// The image of a whole model, gathered on every rank: the plain way to the bytes that ranks write
// together.
#ifndef BATON_TESTS_SUPPORT_ENGINE_MODEL_IMAGE_H_
#define BATON_TESTS_SUPPORT_ENGINE_MODEL_IMAGE_H_

#include <optional>

#include "absl/status/statusor.h"
#include "workers/engine/model/weights_io.h"

namespace baton::engine::testing {

/// All ranks of the model's tensor group call this together. Absent `dtype`: the model's.
inline absl::StatusOr<WeightsImage> ModelImage(const CausalLM& model,
                                               std::optional<torch::Dtype> dtype = {}) {
  const absl::StatusOr<NamedTensors> whole = WholeParameters(model);
  if (!whole.ok()) return whole.status();
  return WeightsImage::Create(*whole, dtype);
}

}  // namespace baton::engine::testing

#endif  // BATON_TESTS_SUPPORT_ENGINE_MODEL_IMAGE_H_
