// What is deleted with a job, and in which order: by DeleteJob, and while no controller runs.
#ifndef BATON_CONTROLLER_RUNTIME_CONTROLLER_DELETE_JOB_H_
#define BATON_CONTROLLER_RUNTIME_CONTROLLER_DELETE_JOB_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "controller/store/store.h"

namespace baton::controller {

/// Deletions of at most `limit` rows below a job's name; empty: no such rows are left. Blocks.
absl::StatusOr<std::vector<store::Write>> DeletionsBelow(store::Store& store,
                                                         const std::string& job, size_t limit);
/// Deletions of the job's own rows, which come last: until they are committed the job exists, and
/// the deletion can be repeated. They leave a row by which a start finds the job's folder. Blocks.
std::vector<store::Write> LastDeletions(store::Store& store, const std::string& job,
                                        const std::string& uid, int64_t order);

/// Deletes a job of a store that no controller uses: for a controller that is down or does not
/// start. `name`: full, or of project `default`. NOT_FOUND (JOB_NOT_FOUND). FAILED_PRECONDITION
/// (JOB_ACTIVE): it has not ended, and is not set aside either. Blocks.
absl::Status DeleteStoredJob(store::Store& store, const std::string& data_root,
                             const std::string& name);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_CONTROLLER_DELETE_JOB_H_
