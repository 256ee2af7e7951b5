// A set of files of the experience log, by number. Neighbours are kept as one range, so a step that
// fills a thousand files costs its job's row two numbers. Pure.
#ifndef BATON_CONTROLLER_CORE_JOB_FILE_RANGES_H_
#define BATON_CONTROLLER_CORE_JOB_FILE_RANGES_H_

#include <cstdint>
#include <map>

#include "baton/store/v1/rows.pb.h"

namespace baton::controller {

class FileRanges {
 public:
  /// Adds one file; adds the files [first, last].
  void Add(uint32_t file) { Add(file, file); }
  void Add(uint32_t first, uint32_t last);
  void Add(const FileRanges& others);
  bool Contains(uint32_t file) const;
  bool empty() const { return ranges_.empty(); }
  /// First -> last file of each range, ascending. No two of them touch.
  const std::map<uint32_t, uint32_t>& ranges() const { return ranges_; }

  void Restore(const store::v1::StepSerials& row);
  void Save(store::v1::StepSerials* row) const;

 private:
  std::map<uint32_t, uint32_t> ranges_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_JOB_FILE_RANGES_H_
