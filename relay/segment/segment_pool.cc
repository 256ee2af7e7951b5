#include "relay/segment/segment_pool.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "sdk/common/base/status_macros.h"

namespace baton::relay {
namespace {

/// Recycled files that are kept. Usually one version is being written, one is in use and one is
/// ending, so more files would stay unused.
constexpr size_t kMaxRecycled = 4;

struct Space {
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;
};

absl::StatusOr<Space> SpaceOf(const std::string& directory) {
  struct statvfs info {};
  if (statvfs(directory.c_str(), &info) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot use ", directory, " for segments"));
  }
  return Space{uint64_t{info.f_blocks} * info.f_frsize, uint64_t{info.f_bavail} * info.f_frsize};
}

}  // namespace

absl::StatusOr<std::unique_ptr<SegmentPool>> SegmentPool::Create(SegmentPoolOptions options) {
  BATON_ASSIGN_OR_RETURN(auto lock, InstanceLock::Create(options.directory, options.prefix));
  BATON_ASSIGN_OR_RETURN(auto orphans, RemoveOrphans(options.directory, options.prefix));
  BATON_ASSIGN_OR_RETURN(const Space space, SpaceOf(options.directory));
  if (options.max_bytes > space.total_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(options.directory, " holds ", space.total_bytes, " bytes, less than the ",
                     options.max_bytes,
                     " bytes of --max-bytes: enlarge it (containers: --shm-size) or lower "
                     "--max-bytes"));
  }
  return std::unique_ptr<SegmentPool>(
      new SegmentPool(std::move(options), std::move(lock), std::move(orphans)));
}

absl::StatusOr<std::unique_ptr<SharedFile>> SegmentPool::Allocate(uint64_t size_bytes) {
  if (size_bytes == 0) return absl::InvalidArgumentError("a segment has at least one byte");
  const std::string path = lock_->SegmentPath(next_++);
  if (auto file = TakeRecycled(size_bytes)) {
    const uint64_t before = file->size_bytes();
    BATON_RETURN_IF_ERROR(file->Reuse(path, size_bytes));
    used_bytes_ -= before - size_bytes;
    return file;
  }
  BATON_RETURN_IF_ERROR(CheckFits(size_bytes, 0));
  while (size_bytes > UnusedBytes() && !recycled_.empty()) {
    Discard(std::move(recycled_.front()));
    recycled_.erase(recycled_.begin());
  }
  BATON_ASSIGN_OR_RETURN(auto file, SharedFile::Create(path, size_bytes));
  used_bytes_ += size_bytes;
  return file;
}

absl::Status SegmentPool::CheckCapacity(uint64_t size_bytes, uint64_t kept_bytes) const {
  BATON_ASSIGN_OR_RETURN(const Space space, SpaceOf(options_.directory));
  const bool limited = options_.max_bytes != 0 && options_.max_bytes < space.total_bytes;
  const uint64_t capacity = limited ? options_.max_bytes : space.total_bytes;
  if (size_bytes <= capacity && kept_bytes <= capacity - size_bytes) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat(
      "a segment of ", size_bytes, " bytes can never fit",
      kept_bytes == 0 ? ""
                      : absl::StrCat(" beside those that the job keeps (", kept_bytes, " bytes)"),
      ": ", options_.directory, " holds ", capacity, " bytes in all",
      limited ? " (--max-bytes)" : "",
      "; the relay needs memory for the versions that it keeps of each job (--keep) and for the "
      "one "
      "being written: enlarge ",
      limited ? "--max-bytes and " : "", options_.directory,
      " (containers: --shm-size), or lower --keep"));
}

absl::Status SegmentPool::CheckFits(uint64_t size_bytes, uint64_t freed_bytes) const {
  const uint64_t free = free_bytes();
  if (size_bytes <= free || size_bytes - free <= freed_bytes) {
    return absl::OkStatus();
  }
  const std::string limit =
      options_.max_bytes == 0 ? "" : absl::StrCat(" (--max-bytes ", options_.max_bytes, ")");
  return absl::ResourceExhaustedError(absl::StrCat(
      "a segment of ", size_bytes, " bytes does not fit: ", free + freed_bytes,
      " bytes are free in ", options_.directory, limit,
      "; enlarge it (containers: --shm-size), keep fewer versions (--keep) or release leases"));
}

void SegmentPool::Recycle(std::unique_ptr<SharedFile> file) {
  recycled_.push_back(std::move(file));
  if (recycled_.size() <= kMaxRecycled) return;
  Discard(std::move(recycled_.front()));
  recycled_.erase(recycled_.begin());
}

void SegmentPool::Discard(std::unique_ptr<SharedFile> file) {
  used_bytes_ -= file->size_bytes();
  file.reset();
}

uint64_t SegmentPool::free_bytes() const {
  uint64_t bytes = UnusedBytes();
  for (const auto& file : recycled_) bytes += file->size_bytes();
  return bytes;
}

/// The smallest file that is large enough, but at most twice as large.
std::unique_ptr<SharedFile> SegmentPool::TakeRecycled(uint64_t size_bytes) {
  auto best = recycled_.end();
  for (auto it = recycled_.begin(); it != recycled_.end(); ++it) {
    const uint64_t have = (*it)->size_bytes();
    if (have < size_bytes || have / 2 > size_bytes) continue;
    const bool better = best == recycled_.end() || have < (*best)->size_bytes();
    if (better) best = it;
  }
  if (best == recycled_.end()) return nullptr;
  std::unique_ptr<SharedFile> file = std::move(*best);
  recycled_.erase(best);
  return file;
}

uint64_t SegmentPool::UnusedBytes() const {
  const auto space = SpaceOf(options_.directory);
  const uint64_t free = space.ok() ? space->free_bytes : 0;
  if (options_.max_bytes == 0) return free;
  return std::min(free, options_.max_bytes - std::min(used_bytes_, options_.max_bytes));
}

}  // namespace baton::relay
