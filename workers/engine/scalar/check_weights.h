// Whether a Hugging Face directory has the weights that its config.json describes, from the headers
// of its files: no tensor is read.
#ifndef BATON_WORKERS_ENGINE_SCALAR_CHECK_WEIGHTS_H_
#define BATON_WORKERS_ENGINE_SCALAR_CHECK_WEIGHTS_H_

#include <string>

#include "absl/status/status.h"

namespace baton::engine {

enum class ScalarHead {
  kNone,      ///< A language model.
  kOptional,  ///< What a critic starts from.
  kRequired,  ///< A reward model.
};

/// What LoadModel or LoadScalarModel would refuse. NOT_FOUND: no weights, a shard or a tensor is
/// missing; INVALID_ARGUMENT: a file is damaged, a tensor has another shape or no place in the
/// model; errors of the config. Names the file or the tensor.
[[nodiscard]] absl::Status CheckWeights(const std::string& dir, ScalarHead head);

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_SCALAR_CHECK_WEIGHTS_H_
