#include "sdk/common/base/private_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace baton {
namespace {

constexpr mode_t kOthers = S_IRWXG | S_IRWXO;

}  // namespace

absl::Status CheckPrivate(absl::string_view flag, const std::string& path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) {
    return absl::NotFoundError(
        absl::StrCat(flag, ": cannot read ", path, ": ", std::strerror(errno)));
  }
  // A pipe has no permissions worth the name: `--token-file <(pass show baton)`.
  if (!S_ISREG(info.st_mode) || (info.st_mode & kOthers) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("%s: users other than its owner may use %s (its mode is %04o); chmod 600 %s",
                      flag, path, info.st_mode & 07777, path));
}

absl::StatusOr<std::string> ReadTokenFile(absl::string_view flag, const std::string& path) {
  if (absl::Status status = CheckPrivate(flag, path); !status.ok()) return status;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    absl::StripAsciiWhitespace(&line);
    if (!line.empty() && line[0] != '#') return line;
  }
  return absl::NotFoundError(absl::StrCat(flag, ": ", path, " holds no token"));
}

absl::Status MakePrivate(const std::string& path) {
  // An existing file is not opened: closing a file drops the locks that its process has on it.
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd >= 0) ::close(fd);
  if (fd >= 0 || (errno == EEXIST && ::chmod(path.c_str(), 0600) == 0)) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(
      absl::StrCat("cannot keep ", path, " to its owner: ", std::strerror(errno)));
}

}  // namespace baton
