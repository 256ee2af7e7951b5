// The names of a spec's enum values in YAML.
#ifndef BATON_SDK_CLIENT_ENUM_NAME_H_
#define BATON_SDK_CLIENT_ENUM_NAME_H_

#include <string>

#include "google/protobuf/descriptor.h"

namespace baton {

/// The name of a value without its type's prefix, in lower case: JOB_KIND_RL of the enum JobKind is
/// "rl".
std::string ShortName(const google::protobuf::EnumDescriptor* type, const std::string& value);

}  // namespace baton

#endif  // BATON_SDK_CLIENT_ENUM_NAME_H_
