// The files of jobs on disk: `<data root>/jobs/PROJECT/JOB`.
#ifndef BATON_CONTROLLER_RUNTIME_JOB_FILES_DISK_FILES_H_
#define BATON_CONTROLLER_RUNTIME_JOB_FILES_DISK_FILES_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>

#include "controller/ports/job_files.h"
#include "controller/runtime/files/folder_bytes.h"
#include "controller/runtime/job_files/data_cache.h"
#include "controller/runtime/job_files/data_files.h"
#include "controller/runtime/rows/restore_marks.h"

namespace baton::controller {

class DiskFiles : public Files {
 public:
  /// Returns the current limits of a job's data files. Thread-safe.
  using LimitsOf = std::function<DataLimits(const std::string& job)>;

  /// `marks` outlives the jobs; null: deaths of the controller are not counted. `limits_of` null:
  /// data files have no limits. `bytes` is told which folders change, and outlives the jobs; may be
  /// null. `max_data_memory_bytes`: of the data of all jobs.
  DiskFiles(std::string data_root, RestoreMarks* marks, LimitsOf limits_of,
            uint64_t max_data_memory_bytes = std::numeric_limits<uint64_t>::max(),
            FolderBytes* bytes = nullptr);
  std::unique_ptr<JobFiles> FilesOf(const std::string& job) override;

 private:
  const std::string data_root_;
  RestoreMarks* const marks_;
  const LimitsOf limits_of_;
  DataCache cache_;
  FolderBytes* const bytes_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_JOB_FILES_DISK_FILES_H_
