#ifndef BATON_SDK_CLI_SHARED_LIFETIME_H_
#define BATON_SDK_CLI_SHARED_LIFETIME_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace baton::cli {

/// The seconds of "90m", "12h" or "30d"; at most a hundred years. INVALID_ARGUMENT names `option`.
absl::StatusOr<int64_t> ParseLifetime(const std::string& option, const std::string& text);

}  // namespace baton::cli

#endif  // BATON_SDK_CLI_SHARED_LIFETIME_H_
