// A job's row: the state that a restarted controller needs.
#ifndef BATON_CONTROLLER_CORE_VIEWS_JOB_ROW_H_
#define BATON_CONTROLLER_CORE_VIEWS_JOB_ROW_H_

#include "baton/store/v1/rows.pb.h"
#include "controller/core/steps/job_parts.h"

namespace baton::controller {

/// The fields of the job that change only with its row: without spec, effective_spec, dataflow,
/// workers and phase.
v1::Job DurableOf(const JobParts& job);
/// The row, to which each part adds its share. Without spec, effective_spec, dataflow, checkpoints
/// and trajectories, which have rows of their own.
store::v1::JobRow RowOf(const JobParts& job);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_VIEWS_JOB_ROW_H_
