// Inputs of a score task: the part of its trajectory that the task carries.
#ifndef BATON_CONTROLLER_RUNTIME_PAYLOADS_SCORE_INPUTS_H_
#define BATON_CONTROLLER_RUNTIME_PAYLOADS_SCORE_INPUTS_H_

#include <map>
#include <string>

#include "baton/v1/experience.pb.h"
#include "baton/v1/job_spec.pb.h"

namespace baton::controller {

/// The part of `payload` that a task of `node` carries. The columns are those that the node's
/// inputs name, and no other node's. Methods of Baton's own roles that compute a value for each
/// token (compute_log_prob of actor and reference, compute_values of the critics) also get the
/// tokens of prompt and response, and no texts; all other methods get these tokens,
/// `rollout_log_prob`, the texts, the answer and `scores`, as far as the trajectory has them by
/// now. Pure.
v1::Trajectory ScoreInputs(const v1::Trajectory& payload,
                           const std::map<std::string, double>& scores, const v1::ScoreNode& node);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_PAYLOADS_SCORE_INPUTS_H_
