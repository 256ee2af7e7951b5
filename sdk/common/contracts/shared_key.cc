#include "sdk/common/contracts/shared_key.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "sdk/common/base/digest.h"
#include "sdk/common/base/private_file.h"

namespace baton {
namespace {

constexpr size_t kLeast = 32;  // characters
constexpr size_t kBytes = 32;

absl::Status CannotWrite(const std::string& path) {
  return absl::FailedPreconditionError(
      absl::StrCat("cannot write ", path, ": ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<std::string> ReadKeyFile(absl::string_view flag, const std::string& path) {
  if (absl::Status status = CheckPrivate(flag, path); !status.ok()) return status;
  std::ifstream file(path);
  std::string key;
  if (!std::getline(file, key)) {
    return absl::NotFoundError(absl::StrCat(flag, ": cannot read a line from ", path));
  }
  absl::StripAsciiWhitespace(&key);
  if (key.size() >= kLeast) return key;
  return absl::InvalidArgumentError(absl::StrCat(flag, ": the key in ", path, " has ", key.size(),
                                                 " characters; give it ", kLeast, " or more"));
}

absl::Status MakeKeyFile(const std::string& path) {
  std::error_code code;
  if (std::filesystem::exists(path, code)) return absl::OkStatus();
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), code);
  auto key = RandomHex(kBytes);
  if (!key.ok()) return key.status();
  key->push_back('\n');
  // Under another name first: no reader finds a file that is not whole.
  const std::string unfinished = absl::StrCat(path, ".", ::getpid());
  const int fd = ::open(unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return CannotWrite(unfinished);
  const bool written = ::write(fd, key->data(), key->size()) == static_cast<ssize_t>(key->size()) &&
                       ::fsync(fd) == 0;
  const absl::Status failed = written ? absl::OkStatus() : CannotWrite(unfinished);
  ::close(fd);
  // Not replaced: the process that was first may have used it already.
  const bool first = written && ::link(unfinished.c_str(), path.c_str()) == 0;
  const int why = errno;
  ::unlink(unfinished.c_str());
  if (!written) return failed;
  errno = why;
  return first || why == EEXIST ? absl::OkStatus() : CannotWrite(path);
}

std::string PublishCapability(absl::string_view key, absl::string_view job,
                              absl::string_view job_uid) {
  return job_uid.empty() ? Mac(key, {"Publish", job}) : Mac(key, {"Publish", job, job_uid});
}

}  // namespace baton
