// The stand-in for a job that is quarantined: shown as FAILED (QUARANTINED), and never written. The
// job's rows and files stay as they are.
#ifndef BATON_CONTROLLER_RUNTIME_JOB_QUARANTINED_CORE_H_
#define BATON_CONTROLLER_RUNTIME_JOB_QUARANTINED_CORE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "baton/store/v1/rows.pb.h"
#include "controller/core/loop/job_core.h"
#include "controller/runtime/job/runtime_context.h"

namespace baton::controller {

/// QUARANTINED: the reason, and how the job comes back.
absl::Status QuarantineError(const std::string& job, absl::string_view reason);

/// A core that has ended with `error`. Of `known`, the job's last row as far as it can be read,
/// only fields that are merely copied are taken: others could make a core fail.
JobCore QuarantinedCore(const std::string& job, const store::v1::JobRow& known,
                        const absl::Status& error, const RuntimeContext& context);

/// The event that tells watchers of the job's end; it has no row.
v1::JobEvent QuarantineEvent(const JobCore& quarantined_core);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_JOB_QUARANTINED_CORE_H_
