// The conversion of a job's spec to a problem of sdk/planner/placement, and of its solution to
// pools. The controller and `baton plan` both use these functions, so that both have one plan.
#ifndef BATON_SDK_PLANNER_PLACEMENT_SPEC_SPEC_PROBLEM_H_
#define BATON_SDK_PLANNER_PLACEMENT_SPEC_SPEC_PROBLEM_H_

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "baton/v1/job_spec.pb.h"
#include "sdk/planner/placement/search.h"

namespace baton::placement {

struct SpecProblem {
  Problem problem;                 ///< Without device and number of devices.
  std::vector<std::string> notes;  ///< Things that the plan leaves out, one sentence each.
};

/// The model of a role; `model` is what the spec gives it, perhaps nothing.
using ModelSource = std::function<absl::StatusOr<PlannedModel>(const std::string& role,
                                                               const v1::ModelSpec& model)>;

/// Every role of the job's graph but the rollouts: of `spec.dataflow`, or of its preset's.
std::set<std::string> AllRoles(const v1::JobSpec& spec);

/// The roles among them that hold a model and are planned, in a fixed order: actor, critic,
/// cost_critic, reference, reward_model, cost.
std::vector<std::string> ModelRoles(const v1::JobSpec& spec);

/// `spec` may have its defaults filled in, or not. InvalidArgument: no role has a model; else the
/// errors of `source`. The layouts are all that sdk/planner/placement knows.
absl::StatusOr<SpecProblem> ProblemOf(const v1::JobSpec& spec, const ModelSource& source);

/// The work as Baton's own workers do it: they train, score and (beside the actor) generate in
/// float32 whatever model.dtype says, keep all layers' activations, and put micro-batches of
/// actor.max_token_len tokens together, as far as a CPU's.
void ComputeAsOwnWorkers(const v1::JobSpec& spec, Workload* workload);

/// Leaves the layouts that Baton's own workers run and the controller admits: no pipeline stages,
/// data ranks that all have a sequence of each mini-batch. And what these workers do
/// (ComputeAsOwnWorkers).
void KeepToRunnable(const v1::JobSpec& spec, Problem* problem);

/// The plan's pools and layouts, the rollouts beside the actor; other fields stay.
void WritePools(const Problem& problem, const Plan& plan, v1::ResourcesSpec* resources);

}  // namespace baton::placement

#endif  // BATON_SDK_PLANNER_PLACEMENT_SPEC_SPEC_PROBLEM_H_
