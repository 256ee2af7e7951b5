// The rows of a job's checkpoints: one for each, so that what a turn writes does not grow with the
// checkpoints that a job keeps.
#ifndef BATON_CONTROLLER_RUNTIME_CHECKPOINT_ROWS_H_
#define BATON_CONTROLLER_RUNTIME_CHECKPOINT_ROWS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "baton/store/v1/rows.pb.h"
#include "controller/store/store.h"

namespace baton::controller {

/// Fills `row`, which job `name` has in kJobTable, with the job's checkpoints, oldest first.
///
/// A job's row of an earlier release lists its checkpoints itself. As long as it does, that list is
/// what counts, and `moves` gets the writes that make the rows of kCheckpointTable agree with it;
/// the list goes when the job writes its row next. Blocks. DATA_LOSS: a row does not parse.
absl::Status ReadCheckpoints(store::Store& store, const std::string& name, store::v1::JobRow* row,
                             std::vector<store::Write>* moves);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_CHECKPOINT_ROWS_H_
