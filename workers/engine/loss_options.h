// A loss by name, with its options: the members of LossSpec of the same name.
#ifndef BATON_WORKERS_ENGINE_LOSS_OPTIONS_H_
#define BATON_WORKERS_ENGINE_LOSS_OPTIONS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "sdk/base/options.h"
#include "workers/engine/loss.h"

namespace baton::engine {

/// `base` with the kind `name` and what `options` say, checked. InvalidArgument lists everything
/// that is wrong at once: an unknown loss, options that it does not have, types, bounds.
absl::StatusOr<LossSpec> MakeLossSpec(absl::string_view name, const Options& options,
                                      LossSpec base = {});

/// Names of the losses; options that a loss has, sorted.
std::vector<std::string> LossNames();
std::vector<std::string> LossOptionNames(absl::string_view name);

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_LOSS_OPTIONS_H_
