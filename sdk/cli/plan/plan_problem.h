// The conversion of a spec and --models to the problem that `baton plan` solves.
#ifndef BATON_SDK_CLI_PLAN_PLAN_PROBLEM_H_
#define BATON_SDK_CLI_PLAN_PLAN_PROBLEM_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "baton/v1/job_spec.pb.h"
#include "sdk/planner/placement_spec/spec_problem.h"

namespace baton::cli {

struct PlanInput {
  v1::JobSpec spec;
  std::string folder;               ///< The spec's folder: model paths are relative to it.
  std::vector<std::string> models;  ///< "llama-70b" for all roles, or "actor=llama-13b".
};

/// The problem that is planned without a spec: HybridFlow's workload, PPO with four models in
/// bfloat16, 1024 prompts and responses of 1024 tokens, eight updates.
extern const char kDefaultPlanSpec[];

/// A model by its name (`llama-7b`), by a Hugging Face directory or by its config.json.
absl::StatusOr<placement::PlannedModel> ReadModel(const std::string& name_or_path);

absl::StatusOr<placement::SpecProblem> MakePlanProblem(const PlanInput& input);

}  // namespace baton::cli

#endif  // BATON_SDK_CLI_PLAN_PLAN_PROBLEM_H_
