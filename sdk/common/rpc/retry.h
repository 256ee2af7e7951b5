// Errors of a server that is busy for the moment, with the time after which to retry.
#ifndef BATON_SDK_COMMON_RPC_RETRY_H_
#define BATON_SDK_COMMON_RPC_RETRY_H_

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace baton {

/// The error for a caller who should try again after `delay` (RetryInfo), because a resource is
/// short for the moment. Nothing of the call has happened.
[[nodiscard]] absl::Status WithRetry(absl::Status status, absl::Duration delay);

/// The delay of WithRetry; infinite: to try again is of no use, or of none that the server knows.
absl::Duration RetryDelay(const absl::Status& status);

}  // namespace baton

#endif  // BATON_SDK_COMMON_RPC_RETRY_H_
