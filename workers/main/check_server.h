// The serving part of `baton-worker check`: many requests, each in a process of its own.
#ifndef BATON_WORKERS_MAIN_CHECK_SERVER_H_
#define BATON_WORKERS_MAIN_CHECK_SERVER_H_

#include <functional>

#include "absl/status/statusor.h"
#include "baton/v1/job_service.pb.h"
#include "baton/v1/job_spec.pb.h"
#include "sdk/common/contracts/check_protocol.h"

namespace baton {

/// Checks one spec. Its errors are told to the caller.
using CheckFunction = std::function<absl::StatusOr<v1::ValidateJobResponse>(
    const v1::JobSpec& spec, const CheckRequestLine& request)>;

/// Answers requests (sdk/common/contracts/check_protocol.h) that come on `in`, in order, on `out`,
/// until `in` ends. Each is checked by a fork of this process: loading the program is paid for
/// once, and nothing of a request (caches, memory, a crash, processor time) reaches the next. The
/// fork has the limits of check_limits.h. A fork that dies is answered "failed", and serving goes
/// on.
///
/// The calling process must have one thread only, and dies with the thread that started it. On
/// SIGTERM it kills and reaps its fork and exits.
/// Returns the exit code: 0 when `in` ended between two requests, 1 when something else came than
/// a request, kCheckCannotBeginCode when the machine is too short of something for a fork; the last
/// two are said on standard error.
int ServeChecks(int in, int out, const CheckFunction& check);

}  // namespace baton

#endif  // BATON_WORKERS_MAIN_CHECK_SERVER_H_
