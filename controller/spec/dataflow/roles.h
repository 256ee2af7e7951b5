// The roles of a job and how many workers each asks for.
#ifndef BATON_CONTROLLER_SPEC_DATAFLOW_ROLES_H_
#define BATON_CONTROLLER_SPEC_DATAFLOW_ROLES_H_

#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "baton/store/v1/rows.pb.h"
#include "baton/v1/job_spec.pb.h"
#include "controller/spec/dataflow/role_names.h"

namespace baton::controller {

/// True for roles that may have an update node: "actor" and the critics.
bool MayTrain(absl::string_view role);

/// True if responses and batches of every step are kept (trainer.keep_experience).
bool KeepsAllExperience(const v1::JobSpec& effective);

/// True for "critic" and "cost_critic".
bool IsCritic(absl::string_view role);

/// Columns of a critic: the one that it makes before an update, and the one that it learns from.
struct CriticColumns {
  const char* values;
  const char* returns;
};
CriticColumns ColumnsOf(absl::string_view critic);

/// The training settings of a role: spec.actor, or its section's `train`; and their path: "actor",
/// "critic.train", "cost_critic.train".
const v1::ActorSpec& TrainingOf(const v1::JobSpec& spec, absl::string_view role);
v1::ActorSpec* MutableTrainingOf(v1::JobSpec* spec, absl::string_view role);
std::string TrainingPath(absl::string_view role);

/// The section of a role that scores with a model of its own and may have several ranks per copy:
/// reference, reward_model and cost; null for others. And its path: "cost_model" for cost.
const v1::ScoringModelSpec* ScoringModelOf(const v1::JobSpec& spec, absl::string_view role);
v1::ScoringModelSpec* MutableScoringModelOf(v1::JobSpec* spec, absl::string_view role);
std::string ScoringModelPath(absl::string_view role);

/// The path of the section with `parallel`, for a role that trains or scores with a model: "actor",
/// "critic.train", "reference", "cost_model"; "" for roles without one.
std::string ParallelPath(absl::string_view role);

/// The shape of a role's group (for a role that only scores: how its workers share the model); 1 x
/// 1 if the spec does not set it.
struct GroupShape {
  int tp = 1;
  int dp = 1;
};
GroupShape ShapeOf(const v1::JobSpec& effective, absl::string_view role);
/// A role whose ranks meet: it has an update node, or several ranks hold one copy of its model.
struct GroupRole {
  std::string role;
  bool trains = true;
};
/// The group roles of a job, each once: the actor first, then others that train, then those that
/// only score.
std::vector<GroupRole> GroupRolesOf(const v1::JobSpec& effective, const v1::Dataflow& dataflow);

/// tp x dp.
int RanksOf(const v1::JobSpec& effective, absl::string_view role);

/// Tensor-parallel ranks of one generating replica; 1 if the spec does not set it.
int GenerationTp(const v1::JobSpec& effective);

/// Role -> workers: the actor, the rollouts of kind rl, and every role of the dataflow. Rollouts
/// that share the actor's pool (IsHybrid) are its ranks: one for each replica.
std::map<std::string, int> WorkersOf(const v1::JobSpec& effective, const v1::Dataflow& dataflow);

/// Prompts that a step begins at a time.
uint64_t GenBatchSize(const v1::JobSpec& effective);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_SPEC_DATAFLOW_ROLES_H_
