#include "controller/core/job/file_ranges.h"

#include <algorithm>
#include <iterator>

namespace baton::controller {

void FileRanges::Add(uint32_t first, uint32_t last) {
  auto next = ranges_.upper_bound(first);
  if (next != ranges_.begin()) {
    const auto before = std::prev(next);
    if (before->second >= last) return;
    // In 64 bits, because the largest file number plus one does not fit into 32.
    if (uint64_t{before->second} + 1 >= first) {
      first = before->first;
      next = before;
    }
  }
  while (next != ranges_.end() && next->first <= uint64_t{last} + 1) {
    last = std::max(last, next->second);
    next = ranges_.erase(next);
  }
  ranges_[first] = last;
}

void FileRanges::Add(const FileRanges& others) {
  for (const auto& [first, last] : others.ranges_) Add(first, last);
}

bool FileRanges::Contains(uint32_t file) const {
  const auto next = ranges_.upper_bound(file);
  return next != ranges_.begin() && std::prev(next)->second >= file;
}

void FileRanges::Restore(const store::v1::StepSerials& row) {
  for (const store::v1::FileRange& range : row.files()) Add(range.first(), range.last());
}

void FileRanges::Save(store::v1::StepSerials* row) const {
  for (const auto& [first, last] : ranges_) {
    store::v1::FileRange* const range = row->add_files();
    range->set_first(first);
    range->set_last(last);
  }
}

}  // namespace baton::controller
