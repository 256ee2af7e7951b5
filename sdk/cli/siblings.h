// The other programs of Baton, which stand beside this one.
#ifndef BATON_SDK_CLI_SIBLINGS_H_
#define BATON_SDK_CLI_SIBLINGS_H_

#include <filesystem>
#include <string>

namespace baton::cli {

/// The path of `program` in the folder of this executable.
inline std::string SiblingPath(const std::string& program) {
  std::error_code code;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", code);
  return (self.parent_path() / program).string();
}

}  // namespace baton::cli

#endif  // BATON_SDK_CLI_SIBLINGS_H_
