// What a worker may promise beyond its roles (worker_service.proto: Hello.features).
#ifndef BATON_SDK_BASE_WORKER_FEATURES_H_
#define BATON_SDK_BASE_WORKER_FEATURES_H_

namespace baton {

/// Role reward: it runs the command of a spec's reward.
inline constexpr char kRewardCommandFeature[] = "reward_command";

/// Roles actor and rollout: versions go to the relay, and come from there, under Task.job_uid.
inline constexpr char kJobUidFeature[] = "job_uid";

}  // namespace baton

#endif  // BATON_SDK_BASE_WORKER_FEATURES_H_
