// Takeover of a store from the previous controller.
#ifndef BATON_CONTROLLER_RUNTIME_CLUSTER_TAKE_OVER_H_
#define BATON_CONTROLLER_RUNTIME_CLUSTER_TAKE_OVER_H_

#include <vector>

#include "absl/status/status.h"
#include "controller/runtime/job/job_runtime.h"
#include "controller/store/store.h"

namespace baton::controller {

/// Commits, and waits for the answer. Blocks: only for a controller that starts.
absl::Status CommitNow(store::Store& store, std::vector<store::Write> writes,
                       store::Durability durability = store::Durability::kPowerCut);

/// Increments the store's epoch, and finds the secret of its capabilities, or makes it. Fills
/// `epoch` and `secret` of `context`. DATA_LOSS: the epoch is no number. Blocks.
absl::Status TakeOver(store::Store& store, RuntimeContext* context);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_CLUSTER_TAKE_OVER_H_
