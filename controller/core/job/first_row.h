// A job's first row, and the fields of a job that never change.
#ifndef BATON_CONTROLLER_CORE_JOB_FIRST_ROW_H_
#define BATON_CONTROLLER_CORE_JOB_FIRST_ROW_H_

#include <cstdint>
#include <memory>

#include "baton/store/v1/rows.pb.h"
#include "baton/v1/job_service.pb.h"

namespace baton::controller {

/// The first row of a new job `as` (name, uid, create_time) that goes on from `checkpoint` of the
/// job of the row `saved`.
store::v1::JobRow GoOnFrom(const store::v1::JobRow& saved, const v1::Job& as,
                           const v1::Checkpoint& checkpoint, int64_t submit_order);

/// Moves out of `job` what never changes and may be large: spec, effective_spec and dataflow.
std::shared_ptr<const v1::Job> TakeSubmitted(v1::Job* job);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_JOB_FIRST_ROW_H_
