// Comparison of the prompts of two jobs. A prompt is known by its place in the data.
#ifndef BATON_CONTROLLER_SPEC_JOB_SPEC_SAME_PROMPTS_H_
#define BATON_CONTROLLER_SPEC_JOB_SPEC_SAME_PROMPTS_H_

#include <string>

#include "baton/v1/job_spec.pb.h"

namespace baton::controller {

/// Why the prompts of `other` are not those of `job`, both effective; empty: they are the same, if
/// the files have not changed. Pure.
std::string WhyOtherPrompts(const v1::JobSpec& job, const v1::JobSpec& other);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_SPEC_JOB_SPEC_SAME_PROMPTS_H_
