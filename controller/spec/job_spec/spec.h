// Check of a spec: its defaults, its problems and its dataflow.
//
// The default and bounds of a single field are in its setting (sdk/common/messages/settings.h);
// this file has the rules over several fields. Pure. The checks need no file and no worker, so
// `baton submit --dry-run` and CreateJob give the same answer.
#ifndef BATON_CONTROLLER_SPEC_JOB_SPEC_SPEC_H_
#define BATON_CONTROLLER_SPEC_JOB_SPEC_SPEC_H_

#include <vector>

#include "baton/v1/error.pb.h"
#include "baton/v1/job_spec.pb.h"

namespace baton::controller {

struct CheckedSpec {
  v1::JobSpec effective;                       ///< Every default filled in.
  v1::Dataflow dataflow;                       ///< The preset's graph.
  std::vector<v1::FieldViolation> violations;  ///< Every problem; empty: the spec is good.
};

/// Fills in defaults and lists every violation: first those of single fields, in their order.
CheckedSpec CheckSpec(const v1::JobSpec& spec);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_SPEC_JOB_SPEC_SPEC_H_
