#include "controller/runtime/restore_marks.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace baton::controller {
namespace {

constexpr int kSlots = 64;
constexpr size_t kSlotBytes = 256;  // a job's name has at most 142 bytes

bool WriteSlot(int fd, int slot, const std::string& job) {
  std::string bytes = job.substr(0, kSlotBytes);
  bytes.resize(kSlotBytes, '\0');
  return ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(slot) * kSlotBytes) ==
         static_cast<ssize_t>(bytes.size());
}

}  // namespace

absl::StatusOr<std::unique_ptr<RestoreMarks>> RestoreMarks::Open(const std::string& path) {
  const auto error = [&] {
    return absl::FailedPreconditionError(absl::StrCat(path, ": ", std::strerror(errno)));
  };
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return error();
  std::vector<std::string> left;
  for (int slot = 0; slot < kSlots; ++slot) {
    char bytes[kSlotBytes + 1] = {};
    if (::pread(fd, bytes, kSlotBytes, static_cast<off_t>(slot) * kSlotBytes) <= 0) break;
    const std::string job = bytes;
    if (!job.empty() && std::find(left.begin(), left.end(), job) == left.end()) left.push_back(job);
  }
  std::unique_ptr<RestoreMarks> marks(new RestoreMarks(fd, std::move(left)));
  for (int slot = 0; slot < kSlots; ++slot) {
    if (!WriteSlot(fd, slot, "")) return error();
  }
  absl::MutexLock lock(&marks->mu_);
  marks->taken_.assign(kSlots, false);
  return marks;
}

RestoreMarks::~RestoreMarks() { ::close(fd_); }

RestoreMarks::Mark RestoreMarks::On(const std::string& job) {
  absl::MutexLock lock(&mu_);
  const auto free = std::find(taken_.begin(), taken_.end(), false);
  if (free == taken_.end()) return Mark();
  *free = true;
  const int slot = static_cast<int>(free - taken_.begin());
  WriteSlot(fd_, slot, job);  // if this fails, a death of the process counts for no job
  return Mark(this, slot);
}

void RestoreMarks::Clear(int slot) {
  absl::MutexLock lock(&mu_);
  WriteSlot(fd_, slot, "");
  taken_[static_cast<size_t>(slot)] = false;
}

}  // namespace baton::controller
