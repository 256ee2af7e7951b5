// Changes to the spec of a job that goes on from a checkpoint: which settings may change.
//
// The contents of the checkpoint stay as they are: weights, optimizer, prompt cursor, step counter.
// So a setting may change if these keep their meaning.
#ifndef BATON_CONTROLLER_SPEC_JOB_SPEC_CHANGE_SPEC_H_
#define BATON_CONTROLLER_SPEC_JOB_SPEC_CHANGE_SPEC_H_

#include <string>
#include <vector>

#include "baton/v1/error.pb.h"
#include "baton/v1/job_service.pb.h"
#include "baton/v1/job_spec.pb.h"

namespace baton::controller {

struct ChangedJob {
  v1::JobSpec spec;            ///< As submitted, with the changes.
  v1::JobSpec effective_spec;  ///< The saved one with the changes; nothing else differs from it.
  v1::Dataflow dataflow;
  std::vector<v1::FieldViolation> violations;  ///< Every problem; empty: the job may go on so.
};

/// `saved`: spec, effective_spec, dataflow and step of the checkpoint's job. Each field that
/// `changes` has replaces the saved one; lists, maps and Structs are replaced as a whole.
ChangedJob ChangeSpec(const v1::Job& saved, const v1::JobSpec& changes);

/// Why the setting at `path`, e.g. "data.seed", may not change; empty: it may.
std::string WhyFixed(const std::string& path);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_SPEC_JOB_SPEC_CHANGE_SPEC_H_
