#include "relay/segment/instance_lock.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <random>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace baton::relay {
namespace {

constexpr size_t kInstanceDigits = 12;
constexpr absl::string_view kLockSuffix = ".lock";
constexpr absl::string_view kSegmentSuffix = ".safetensors";

std::string RandomInstance() {
  std::random_device device;
  const uint64_t bits = (uint64_t{device()} << 32 | device()) & 0xffff'ffff'ffff;
  return absl::StrCat(absl::Hex(bits, absl::kZeroPad12));
}

absl::Status CheckPrefix(absl::string_view prefix) {
  const auto allowed = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
  };
  if (!prefix.empty() && prefix.size() <= 64 &&
      std::all_of(prefix.begin(), prefix.end(), allowed)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "segment prefix \"", prefix, "\" is not 1 to 64 letters, digits, '-', '_' or '.'"));
}

std::string LockPath(absl::string_view directory, absl::string_view prefix,
                     absl::string_view instance) {
  return absl::StrCat(directory, "/", prefix, "-", instance, kLockSuffix);
}

/// The instance in a file name, if the name is one of ours.
std::optional<std::string> InstanceOf(absl::string_view name, absl::string_view prefix) {
  if (!absl::ConsumePrefix(&name, prefix) || !absl::ConsumePrefix(&name, "-")) return {};
  if (name.size() < kInstanceDigits) return {};
  const absl::string_view instance = name.substr(0, kInstanceDigits);
  name.remove_prefix(kInstanceDigits);
  const auto hex = [](char c) { return absl::ascii_isdigit(c) || (c >= 'a' && c <= 'f'); };
  if (!std::all_of(instance.begin(), instance.end(), hex)) return {};
  if (name == kLockSuffix) return std::string(instance);
  if (!absl::ConsumePrefix(&name, "-") || !absl::ConsumeSuffix(&name, kSegmentSuffix)) return {};
  const auto digit = [](char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); };
  if (name.empty() || !std::all_of(name.begin(), name.end(), digit)) return {};
  return std::string(instance);
}

absl::StatusOr<std::map<std::string, std::vector<std::string>>> FilesByInstance(
    const std::string& directory, absl::string_view prefix) {
  DIR* dir = opendir(directory.c_str());
  if (dir == nullptr) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot list ", directory));
  }
  std::map<std::string, std::vector<std::string>> files;
  while (const dirent* entry = readdir(dir)) {
    if (const auto instance = InstanceOf(entry->d_name, prefix)) {
      files[*instance].push_back(absl::StrCat(directory, "/", entry->d_name));
    }
  }
  closedir(dir);
  for (auto& [instance, paths] : files) std::sort(paths.begin(), paths.end());
  return files;
}

}  // namespace

absl::StatusOr<std::unique_ptr<InstanceLock>> InstanceLock::Create(const std::string& directory,
                                                                   const std::string& prefix) {
  if (absl::Status status = CheckPrefix(prefix); !status.ok()) return status;
  for (;;) {
    const std::string instance = RandomInstance();
    const std::string path = LockPath(directory, prefix, instance);
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST) continue;
    if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot create ", path));
    // Between open and flock, another starting relay may have removed the file as an orphan.
    struct stat info {};
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &info) == 0 && info.st_nlink > 0) {
      return std::unique_ptr<InstanceLock>(new InstanceLock(directory, prefix, instance, fd));
    }
    close(fd);
  }
}

InstanceLock::~InstanceLock() {
  unlink(LockPath(directory_, prefix_, instance_).c_str());
  close(fd_);
}

std::string InstanceLock::SegmentPath(uint64_t n) const {
  return absl::StrCat(directory_, "/", prefix_, "-", instance_, "-", n, kSegmentSuffix);
}

absl::StatusOr<std::vector<std::string>> RemoveOrphans(const std::string& directory,
                                                       absl::string_view prefix) {
  auto files = FilesByInstance(directory, prefix);
  if (!files.ok()) return files.status();
  std::vector<std::string> removed;
  for (const auto& [instance, paths] : *files) {
    // Segments exist only while their lock file does, unless a removal was interrupted.
    const int fd = open(LockPath(directory, prefix, instance).c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0 && errno != ENOENT) continue;
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0) {
      close(fd);
      continue;
    }
    for (const std::string& path : paths) {
      if (unlink(path.c_str()) == 0) removed.push_back(path);
    }
    if (fd >= 0) close(fd);
  }
  return removed;
}

}  // namespace baton::relay
