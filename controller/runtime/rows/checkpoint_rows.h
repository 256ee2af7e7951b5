// The rows of a job's checkpoints. Each checkpoint has its own row, so that the size of a turn's
// writes does not grow with the number of checkpoints.
#ifndef BATON_CONTROLLER_RUNTIME_ROWS_CHECKPOINT_ROWS_H_
#define BATON_CONTROLLER_RUNTIME_ROWS_CHECKPOINT_ROWS_H_

#include <string>

#include "absl/status/status.h"
#include "baton/store/v1/rows.pb.h"
#include "controller/store/store.h"

namespace baton::controller {

/// Sets the checkpoints of `row`, the row of job `name` in kJobTable, oldest first. Blocks.
/// DATA_LOSS: a row does not parse; those before it are set.
absl::Status ReadCheckpoints(store::Store& store, const std::string& name, store::v1::JobRow* row);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_ROWS_CHECKPOINT_ROWS_H_
