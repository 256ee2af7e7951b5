// A data root that was moved, or restored elsewhere: rows hold absolute paths below the one they
// were written under.
#ifndef BATON_CONTROLLER_RUNTIME_MOVE_ROOT_H_
#define BATON_CONTROLLER_RUNTIME_MOVE_ROOT_H_

#include <string>

#include "absl/status/status.h"
#include "controller/store/store.h"
#include "google/protobuf/message.h"

namespace baton::controller {

/// Every text in `message` that is a path below `from` leads below `to` afterwards. True: one did.
bool MovePaths(const std::string& from, const std::string& to, google::protobuf::Message* message);

/// Before anything else is read: makes all rows of jobs fit `data_root`, as it is spelled, in one
/// commit with the root that the store remembers. Nothing happens where that is the same. Blocks.
absl::Status MoveRoot(store::Store& store, const std::string& data_root);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_MOVE_ROOT_H_
