// The rows of a job's checkpoints. Each checkpoint has its own row, so that the size of a turn's
// writes does not grow with the number of checkpoints.
#ifndef BATON_CONTROLLER_RUNTIME_CHECKPOINT_ROWS_H_
#define BATON_CONTROLLER_RUNTIME_CHECKPOINT_ROWS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "baton/store/v1/rows.pb.h"
#include "controller/store/store.h"

namespace baton::controller {

/// Fills `row`, the row of job `name` in kJobTable, with the job's checkpoints, oldest first.
///
/// A job's row of an earlier release lists its checkpoints itself. That list counts as long as it
/// exists: `moves` gets the writes that make the rows of kCheckpointTable agree with it. The job's
/// next write removes the list. Blocks. DATA_LOSS: a row does not parse.
absl::Status ReadCheckpoints(store::Store& store, const std::string& name, store::v1::JobRow* row,
                             std::vector<store::Write>* moves);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_CHECKPOINT_ROWS_H_
