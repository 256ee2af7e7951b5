// A judge as a reward function: role judge without a service.
#ifndef BATON_WORKERS_MAIN_JUDGE_REWARD_H_
#define BATON_WORKERS_MAIN_JUDGE_REWARD_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "baton/v1/job_spec.pb.h"
#include "workers/reward/reward_function.h"

namespace baton {

/// Loads the model of `spec` (the job's spec.judge). One response after the other; any thread. The
/// score "unreadable" is 1 where the judgement has no verdict, which is then worth `neutral`.
/// Errors name spec.judge.
absl::StatusOr<std::unique_ptr<reward::RewardFunction>> MakeJudgeReward(const v1::JudgeSpec& spec,
                                                                        const std::string& device);

}  // namespace baton

#endif  // BATON_WORKERS_MAIN_JUDGE_REWARD_H_
