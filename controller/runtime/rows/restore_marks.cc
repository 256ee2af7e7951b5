#include "controller/runtime/rows/restore_marks.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace baton::controller {
namespace {

constexpr int kSlots = 64;
constexpr size_t kSlotBytes = 256;  // a job's name has at most 142 bytes

constexpr size_t kFileBytes = kSlots * kSlotBytes;

void WriteSlot(char* slots, int slot, const std::string& job) {
  char* const at = slots + static_cast<size_t>(slot) * kSlotBytes;
  const size_t bytes = std::min(job.size(), kSlotBytes);
  std::memcpy(at, job.data(), bytes);
  std::memset(at + bytes, 0, kSlotBytes - bytes);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RestoreMarks>> RestoreMarks::Open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  const auto error = [&] {
    const int cause = errno;
    if (fd >= 0) ::close(fd);
    return absl::FailedPreconditionError(absl::StrCat(path, ": ", std::strerror(cause)));
  };
  if (fd < 0) return error();
  std::string before(kFileBytes, '\0');
  if (::pread(fd, before.data(), before.size(), 0) < 0) return error();
  std::vector<std::string> left;
  for (int slot = 0; slot < kSlots; ++slot) {
    std::string job = before.substr(static_cast<size_t>(slot) * kSlotBytes, kSlotBytes);
    job.resize(std::strlen(job.c_str()));
    if (!job.empty() && std::find(left.begin(), left.end(), job) == left.end()) left.push_back(job);
  }
  // Zeros are written, instead of only extending the file, so that the disk has room for all of it
  // and a later mark needs none.
  const std::string zeros(kFileBytes, '\0');
  if (::pwrite(fd, zeros.data(), zeros.size(), 0) != static_cast<ssize_t>(zeros.size())) {
    return error();
  }
  void* const slots = ::mmap(nullptr, kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (slots == MAP_FAILED) return error();
  ::close(fd);
  std::unique_ptr<RestoreMarks> marks(new RestoreMarks(static_cast<char*>(slots), std::move(left)));
  absl::MutexLock lock(&marks->mu_);
  marks->taken_.assign(kSlots, false);
  return marks;
}

RestoreMarks::~RestoreMarks() { ::munmap(slots_, kFileBytes); }

RestoreMarks::Mark RestoreMarks::On(const std::string& job) {
  absl::MutexLock lock(&mu_);
  const auto free = std::find(taken_.begin(), taken_.end(), false);
  if (free == taken_.end()) return Mark();
  *free = true;
  const int slot = static_cast<int>(free - taken_.begin());
  WriteSlot(slots_, slot, job);
  return Mark(this, slot);
}

void RestoreMarks::Clear(int slot) {
  absl::MutexLock lock(&mu_);
  WriteSlot(slots_, slot, "");
  taken_[static_cast<size_t>(slot)] = false;
}

}  // namespace baton::controller
