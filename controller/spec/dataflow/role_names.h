// The names of the built-in roles, as used in specs, dataflows, rows and tasks.
#ifndef BATON_CONTROLLER_SPEC_DATAFLOW_ROLE_NAMES_H_
#define BATON_CONTROLLER_SPEC_DATAFLOW_ROLE_NAMES_H_

namespace baton::controller::roles {

inline constexpr char kActor[] = "actor";               ///< Trains the policy.
inline constexpr char kRollout[] = "rollout";           ///< Generates with the policy.
inline constexpr char kCritic[] = "critic";             ///< Values of rewards; trains.
inline constexpr char kCostCritic[] = "cost_critic";    ///< Values of costs; trains.
inline constexpr char kReward[] = "reward";             ///< Scores by a function or a command.
inline constexpr char kRewardModel[] = "reward_model";  ///< Scores by a model.
inline constexpr char kCost[] = "cost";                 ///< Scores costs by a model.
inline constexpr char kReference[] = "reference";       ///< Log-probs of the initial policy.
inline constexpr char kJudge[] = "judge";               ///< Scores by asking a model.

/// Holds versions for the workers of a host. Serves many jobs, and is granted to none.
inline constexpr char kRelay[] = "relay";

}  // namespace baton::controller::roles

#endif  // BATON_CONTROLLER_SPEC_DATAFLOW_ROLE_NAMES_H_
