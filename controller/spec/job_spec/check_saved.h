// Check that a controller accepts the specs of a saved job.
//
// A spec enters a controller not only by CreateJob, but also in a checkpoint's job.json, which a
// user may have written; in a row of the store, which may be damaged or come from a backup; and
// with a job that another one replays or begins with. All of these pass the same checks as a new
// spec before they are used. Pure.
#ifndef BATON_CONTROLLER_SPEC_JOB_SPEC_CHECK_SAVED_H_
#define BATON_CONTROLLER_SPEC_JOB_SPEC_CHECK_SAVED_H_

#include <string>
#include <vector>

#include "baton/v1/error.pb.h"
#include "baton/v1/job_service.pb.h"

namespace baton::controller {

/// Every problem of effective_spec and dataflow of `job`; empty: they are valid.
std::vector<v1::FieldViolation> CheckSaved(const v1::Job& job);

/// The same for people, in one line: the first problem, and how many more there are. "": none.
std::string ProblemOfSaved(const v1::Job& job);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_SPEC_JOB_SPEC_CHECK_SAVED_H_
