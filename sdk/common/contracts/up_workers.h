// The kinds of workers that `baton up` starts.
#ifndef BATON_SDK_COMMON_CONTRACTS_UP_WORKERS_H_
#define BATON_SDK_COMMON_CONTRACTS_UP_WORKERS_H_

#include <array>

#include "absl/strings/string_view.h"

namespace baton {

struct UpWorkers {
  absl::string_view option;  ///< Option of `baton up` for their number, without its dashes.
  absl::string_view id;      ///< Prefix of worker ids: ID-0, ID-1, ….
  absl::string_view roles;   ///< Roles that each of them plays, separated by commas.
};

/// The first that plays a role is the one to add for that role alone; the last one plays every
/// role, and several at once.
inline constexpr std::array<UpWorkers, 5> kUpWorkers = {{
    {"trainers", "actor", "actor"},
    {"rollouts", "rollout", "rollout"},
    {"rewards", "reward", "reward"},
    {"scorers", "scorer", "critic,cost_critic,reference,reward_model,cost,judge"},
    {"workers", "worker",
     "actor,rollout,reward,critic,cost_critic,reference,reward_model,cost,judge"},
}};

}  // namespace baton

#endif  // BATON_SDK_COMMON_CONTRACTS_UP_WORKERS_H_
