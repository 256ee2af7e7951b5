// The data files of a spec, read at admission and again whenever a job needs its data: when it gets
// its first worker, and at each restart of the controller. Files may have grown meanwhile, so what
// bounds them is asked each time.
#ifndef BATON_CONTROLLER_RUNTIME_DATA_FILES_H_
#define BATON_CONTROLLER_RUNTIME_DATA_FILES_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "baton/v1/job_spec.pb.h"
#include "controller/core/step_size.h"
#include "sdk/data_set/data_set.h"

namespace baton::controller {

struct DataLimits {
  uint64_t bytes = std::numeric_limits<uint64_t>::max();  ///< Of one list of files.
  StepLimits steps;                                       ///< An evaluation's size.
};

/// Reads `paths`, one list of a spec. Where they have more than `max_bytes` together, which the
/// controller would hold in memory, nothing is read and a problem says so. Blocks.
DataSet ReadDataFiles(const std::vector<std::string>& paths, const DataSetOptions& options,
                      uint64_t max_bytes);

struct JobData {
  DataSet train, val, pretrain;       ///< Without their problems.
  std::vector<std::string> problems;  ///< Of all, each with the field of the spec.
};

/// Reads all lists of `effective`; relative paths are below `data_root`. Blocks.
JobData ReadJobData(const v1::JobSpec& effective, const std::string& data_root,
                    const DataLimits& limits);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_DATA_FILES_H_
