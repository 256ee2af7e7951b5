// The other programs of Baton, which stand beside this one.
#ifndef BATON_SDK_CLI_SHARED_SIBLING_PROGRAM_H_
#define BATON_SDK_CLI_SHARED_SIBLING_PROGRAM_H_

#include <string>
#include <vector>

namespace baton::cli {

/// The path of `program` in the folder of this executable.
std::string SiblingPath(const std::string& program);

/// Replaces this process with `program` and these arguments; the first one is the name by which the
/// program calls itself. Returns only if that fails, with why: "cannot run PATH: …".
std::string BecomeSibling(const std::string& program, std::vector<std::string> arguments);

}  // namespace baton::cli

#endif  // BATON_SDK_CLI_SHARED_SIBLING_PROGRAM_H_
