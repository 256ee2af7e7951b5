// Limits of rewards that controller and workers know.
#ifndef BATON_SDK_BASE_REWARD_LIMITS_H_
#define BATON_SDK_BASE_REWARD_LIMITS_H_

namespace baton {

/// RewardSpec.max_error_rate where a spec has none.
inline constexpr double kDefaultMaxErrorRate = 0.1;

}  // namespace baton

#endif  // BATON_SDK_BASE_REWARD_LIMITS_H_
