#include "sdk/cli/shared/sibling_program.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace baton::cli {

std::string SiblingPath(const std::string& program) {
  std::error_code code;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", code);
  return (self.parent_path() / program).string();
}

std::string BecomeSibling(const std::string& program, std::vector<std::string> arguments) {
  const std::string path = SiblingPath(program);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  ::execv(path.c_str(), argv.data());
  return absl::StrCat("cannot run ", path, ": ", std::strerror(errno));
}

}  // namespace baton::cli
