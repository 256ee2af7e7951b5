// The check that a Hugging Face directory has the weights that its config.json describes. It reads
// the headers of the files, and no tensor.
#ifndef BATON_WORKERS_ENGINE_SCALAR_CHECK_WEIGHTS_H_
#define BATON_WORKERS_ENGINE_SCALAR_CHECK_WEIGHTS_H_

#include <string>

#include "absl/status/status.h"

namespace baton::engine {

enum class ScalarHead {
  kNone,      ///< A language model.
  kOptional,  ///< The model that a critic starts from.
  kRequired,  ///< A reward model.
};

/// The error that LoadModel or LoadScalarModel would return. NOT_FOUND: no weights, a shard or a
/// tensor is missing; INVALID_ARGUMENT: a file is damaged, a tensor has another shape or no place
/// in the model; errors of the config. Names the file or the tensor.
[[nodiscard]] absl::Status CheckWeights(const std::string& dir, ScalarHead head);

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_SCALAR_CHECK_WEIGHTS_H_
