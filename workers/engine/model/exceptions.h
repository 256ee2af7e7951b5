// Exceptions of libtorch and of collectives, as statuses: none leaves the engine.
#ifndef BATON_WORKERS_ENGINE_MODEL_EXCEPTIONS_H_
#define BATON_WORKERS_ENGINE_MODEL_EXCEPTIONS_H_

#include <exception>

#include "absl/status/status.h"

namespace baton::engine {

/// A CollectiveError's status; else Internal, with libtorch's own words.
absl::Status FromException(const std::exception& error);

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_MODEL_EXCEPTIONS_H_
