// The version of Baton that a program belongs to.
#ifndef BATON_SDK_COMMON_PROCESS_VERSION_H_
#define BATON_SDK_COMMON_PROCESS_VERSION_H_

#include <string>

#include "absl/strings/string_view.h"

namespace baton {

/// The version of the release, from the project in CMakeLists.txt: "0.1.0".
absl::string_view Version();
/// The first twelve digits of the commit that was built; "": it is not known.
absl::string_view Commit();
/// The text that `PROGRAM --version` prints: "PROGRAM 0.1.0 (commit 0123456789ab)".
std::string VersionLine(absl::string_view program);

}  // namespace baton

#endif  // BATON_SDK_COMMON_PROCESS_VERSION_H_
