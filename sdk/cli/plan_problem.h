// From a job's spec to the question that `baton plan` asks: which models, how large, how much work.
#ifndef BATON_SDK_CLI_PLAN_PROBLEM_H_
#define BATON_SDK_CLI_PLAN_PROBLEM_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "baton/v1/job_spec.pb.h"
#include "sdk/placement/search.h"

namespace baton::cli {

struct PlanInput {
  v1::JobSpec spec;
  std::string folder;               ///< Of the spec: model paths are relative to it.
  std::vector<std::string> models;  ///< "llama-70b" for all roles, or "actor=llama-13b".
};

struct PlanProblem {
  placement::Problem problem;      ///< Without device and number of devices.
  std::vector<std::string> notes;  ///< What the plan leaves out, one sentence each.
};

/// What is planned without a spec: HybridFlow's workload, PPO with four models in bfloat16,
/// 1024 prompts and responses of 1024 tokens, eight updates.
extern const char kDefaultPlanSpec[];

/// The roles that hold a model, in a fixed order: actor, critic, reference, reward_model, cost,
/// cost_critic.
std::vector<std::string> ModelRoles(const v1::JobSpec& spec);

/// A model by its name (`llama-7b`), by a Hugging Face directory or by its config.json.
absl::StatusOr<placement::ModelConfig> ReadModel(const std::string& name_or_path);

absl::StatusOr<PlanProblem> MakePlanProblem(const PlanInput& input);

}  // namespace baton::cli

#endif  // BATON_SDK_CLI_PLAN_PROBLEM_H_
