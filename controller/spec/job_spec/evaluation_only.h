// A job with trainer.val_only: it evaluates its model and trains nothing, so it has no workers for
// roles that only training uses.
//
// The actor stays: it reads the model and publishes its weights to the rollouts, without memory of
// an optimizer. So do the roles that rewards come from.
#ifndef BATON_CONTROLLER_SPEC_JOB_SPEC_EVALUATION_ONLY_H_
#define BATON_CONTROLLER_SPEC_JOB_SPEC_EVALUATION_ONLY_H_

#include <set>
#include <string>

#include "baton/v1/job_spec.pb.h"

namespace baton::controller {

/// Leaves the score nodes that rewards come from, and of the updates the actor's alone (which is
/// added if there is none); no response is a baseline. Returns the roles that the graph has lost.
/// Pure.
std::set<std::string> KeepEvaluation(v1::Dataflow* dataflow);

/// Takes sections of these roles, their numbers of workers and their places in pools out of the
/// spec. A pool may be left without roles.
void ForgetRoles(const std::set<std::string>& roles, v1::JobSpec* spec);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_SPEC_JOB_SPEC_EVALUATION_ONLY_H_
