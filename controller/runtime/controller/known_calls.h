// Calls with a request id that are under way. A repeat of such a call takes effect once.
#ifndef BATON_CONTROLLER_RUNTIME_CONTROLLER_KNOWN_CALLS_H_
#define BATON_CONTROLLER_RUNTIME_CONTROLLER_KNOWN_CALLS_H_

#include <memory>
#include <string>
#include <vector>

#include "baton/store/v1/rows.pb.h"
#include "baton/v1/job_service.pb.h"
#include "controller/runtime/calls/calls.h"
#include "controller/runtime/job/job_runtime.h"

namespace baton::controller {

/// A call that makes a job.
struct Admitted {
  std::string request_id;     ///< Empty: it has none, and `row` is of no use.
  store::v1::RequestRow row;  ///< Without the job.
};

/// A call whose job is not committed yet.
struct Admitting {
  std::shared_ptr<JobRuntime> job;
  store::v1::RequestRow row;
};

/// A call that changes a job.
struct SteerCall {
  const char* method;
  std::string name;
  std::string request_id;
};

struct SteerUnderWay {
  std::string method, job;
  std::vector<Callback<v1::Job>> waiting;  ///< Repeats of the same call.
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_CONTROLLER_KNOWN_CALLS_H_
