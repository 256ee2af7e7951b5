// A node's options between a spec and what reads them.
#ifndef BATON_CONTROLLER_CORE_DATAFLOW_OPTIONS_H_
#define BATON_CONTROLLER_CORE_DATAFLOW_OPTIONS_H_

#include "absl/status/statusor.h"
#include "google/protobuf/struct.pb.h"
#include "sdk/base/options.h"

namespace baton::controller {

/// InvalidArgument names an option that is neither a number, true or false, nor a text.
absl::StatusOr<Options> ToOptions(const google::protobuf::Struct& options);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_DATAFLOW_OPTIONS_H_
