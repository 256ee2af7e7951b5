// The address by which other machines reach this one.
#ifndef BATON_SDK_COMMON_PROCESS_LOCAL_ADDRESS_H_
#define BATON_SDK_COMMON_PROCESS_LOCAL_ADDRESS_H_

#include <string>

#include "absl/status/statusor.h"

namespace baton {

/// The address of this machine from which packets to `host_port` leave, as a number: what others
/// reach it by. Nothing is sent. INVALID_ARGUMENT names a host that cannot be looked up.
absl::StatusOr<std::string> LocalAddressTowards(const std::string& host_port);

}  // namespace baton

#endif  // BATON_SDK_COMMON_PROCESS_LOCAL_ADDRESS_H_
