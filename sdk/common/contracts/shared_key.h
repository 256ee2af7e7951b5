// A secret that processes share through a file, and the capabilities that are made from it.
#ifndef BATON_SDK_COMMON_CONTRACTS_SHARED_KEY_H_
#define BATON_SDK_COMMON_CONTRACTS_SHARED_KEY_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton {

/// The first line of `path`, without the space around it. `flag` names the file in messages.
/// Errors of CheckPrivate; NOT_FOUND: it cannot be read; INVALID_ARGUMENT: fewer than 32
/// characters.
absl::StatusOr<std::string> ReadKeyFile(absl::string_view flag, const std::string& path);

/// Writes a new key of 64 random digits to `path`, for its owner alone (0600), unless a file is
/// there already. Folders above are made. FAILED_PRECONDITION: it cannot be written.
[[nodiscard]] absl::Status MakeKeyFile(const std::string& path);

/// The capability that a relay that shares `key` with the controller asks of a worker that
/// publishes versions of `job`. It is valid for that job alone: with a uid, not for another job of
/// its name. Without one: for versions of that name that were published without one.
std::string PublishCapability(absl::string_view key, absl::string_view job,
                              absl::string_view job_uid = "");

}  // namespace baton

#endif  // BATON_SDK_COMMON_CONTRACTS_SHARED_KEY_H_
