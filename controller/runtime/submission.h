// A CreateJob from its call to its job.
#ifndef BATON_CONTROLLER_RUNTIME_SUBMISSION_H_
#define BATON_CONTROLLER_RUNTIME_SUBMISSION_H_

#include <filesystem>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "baton/store/v1/rows.pb.h"
#include "baton/v1/job_service.pb.h"
#include "controller/core/spec.h"
#include "controller/runtime/controller_interface.h"

namespace baton::controller {

/// What a job goes on from.
struct Origin {
  std::filesystem::path checkpoint;
  std::string lost_job;  ///< In the folder of this job, which the store does not know; or empty.
};

/// Its files are looked at by threads that nothing else waits for; before and after that it is on
/// the controller's strand of admissions. Used by one thread at a time.
struct Submission {
  v1::CreateJobRequest request;  ///< Its project is a valid id.
  Callback<v1::Job> done;
  absl::Status read;  ///< What is wrong with what it names.
  // With a spec.
  CheckedSpec checked;
  std::map<std::string, std::string> of_jobs;  ///< "job:NAME" by the folder that it meant.
  // With a checkpoint.
  Origin origin;
  bool adopt = false;         ///< It goes on under the name and in the folder of the lost job.
  bool copies_model = false;  ///< `saved` has no model here: it begins with the checkpoint's.
  store::v1::JobRow saved;    ///< Of its job.json; once read, with paths that are open here.
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_SUBMISSION_H_
