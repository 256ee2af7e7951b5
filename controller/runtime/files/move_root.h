// Correction of rows after a data root was moved, or restored elsewhere: rows hold absolute paths
// below the data root at which they were written.
#ifndef BATON_CONTROLLER_RUNTIME_FILES_MOVE_ROOT_H_
#define BATON_CONTROLLER_RUNTIME_FILES_MOVE_ROOT_H_

#include <string>

#include "absl/status/status.h"
#include "controller/store/store.h"
#include "google/protobuf/message.h"

namespace baton::controller {

/// Replaces `from` by `to` at the beginning of every text in `message` that is a path below `from`.
/// True: it replaced one.
bool MovePaths(const std::string& from, const std::string& to, google::protobuf::Message* message);

/// Call before anything else is read. Corrects the rows of all jobs for `data_root`, as it is
/// spelled, in one commit with the root that the store remembers. Does nothing if the root is the
/// same. Blocks.
absl::Status MoveRoot(store::Store& store, const std::string& data_root);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_FILES_MOVE_ROOT_H_
