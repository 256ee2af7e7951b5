// The data files of a spec. They are read at admission, and again when a job gets its first worker
// and at each restart of the controller. Files may have grown meanwhile, so their limits are
// checked each time.
#ifndef BATON_CONTROLLER_RUNTIME_JOB_FILES_DATA_FILES_H_
#define BATON_CONTROLLER_RUNTIME_JOB_FILES_DATA_FILES_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "baton/v1/job_service.pb.h"
#include "baton/v1/job_spec.pb.h"
#include "controller/ports/job_files.h"
#include "controller/runtime/job_files/data_cache.h"
#include "controller/spec/settings/step_size.h"
#include "sdk/common/data_set/data_set.h"

namespace baton::controller {

struct DataLimits {
  uint64_t bytes = std::numeric_limits<uint64_t>::max();  ///< Limit for one list of files.
  /// Limit for the memory of all lists of a job.
  uint64_t memory_bytes = std::numeric_limits<uint64_t>::max();
  StepLimits steps;  ///< Limits the size of an evaluation.
};

/// The files of one list of a spec; relative paths are below `data_root`.
std::vector<std::string> AbsolutePaths(
    const std::string& data_root, const google::protobuf::RepeatedPtrField<std::string>& files);

/// Bytes of all files that `data` names. Opens no file.
uint64_t DataBytes(const std::string& data_root, const v1::DataSpec& data);

/// Reads `paths`, one list of a spec. The controller holds the data in memory. So if the files
/// together are larger than `limits` allow, it reads nothing and reports a problem; and it stops
/// reading once the examples take too much memory. Blocks.
DataSet ReadDataFiles(const std::vector<std::string>& paths, DataSetOptions options,
                      const DataLimits& limits);

/// Counts the examples of `data`, which was read for the list `list` ("train_files", …).
v1::DataFilesSummary Summarise(const std::string& list, const DataSet& data);

/// The problem if the lists of a job take `memory_bytes` together; "" if there is none.
std::string DataTooLarge(uint64_t memory_bytes, const DataLimits& limits);

/// Takes all lists of `effective` from `cache`, which reads those that nobody holds; relative paths
/// are below `data_root`. `held` and errors as JobFiles::ReadData. Blocks.
absl::StatusOr<JobData> ReadJobData(const v1::JobSpec& effective, const std::string& data_root,
                                    const DataLimits& limits, bool held, DataCache* cache);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_JOB_FILES_DATA_FILES_H_
