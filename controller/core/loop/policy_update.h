// The update of a step: every role that trains learns from the batch, and the step is done.
//
// clang-format off
//   the batch is built --BeginUpdate: a command to each group--> under way
//       --the last group is done--> the step is done: its metrics are reported,
//                                   the actor's weights are a new version
// clang-format on
//
// A batch that filters left empty is a step as well, without an update.
#ifndef BATON_CONTROLLER_CORE_LOOP_POLICY_UPDATE_H_
#define BATON_CONTROLLER_CORE_LOOP_POLICY_UPDATE_H_

#include <map>
#include <string>

#include "controller/core/steps/job_parts.h"

namespace baton::controller {

/// The batch is built: stores it, and commands every group that trains in this step at once.
void BeginUpdate(JobParts& job);
/// All ranks of `group` have made the update; `metrics` is what rank 0 reported.
void OnGroupUpdated(const Group& group, std::map<std::string, double> metrics, JobParts& job);
/// Begins a step in the kept experience; steps that are too old are retired.
void BeginKeptStep(JobParts& job);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_POLICY_UPDATE_H_
