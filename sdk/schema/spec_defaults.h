// Defaults of a job's spec that more than one program goes by: the controller, which fills them in,
// the planner, which may be asked before there is a controller, and `baton reward test`.
#ifndef BATON_SDK_SCHEMA_SPEC_DEFAULTS_H_
#define BATON_SDK_SCHEMA_SPEC_DEFAULTS_H_

namespace baton {

inline constexpr int kDefaultTrainBatchSize = 32;       ///< data.train_batch_size
inline constexpr int kDefaultMaxPromptLength = 1024;    ///< data.max_prompt_length
inline constexpr int kDefaultMaxResponseLength = 1024;  ///< data.max_response_length
inline constexpr int kDefaultSamples = 8;               ///< rollout.n
inline constexpr int kDefaultPpoEpochs = 1;             ///< actor.ppo_epochs
inline constexpr int kDefaultMaxTokenLen = 16384;       ///< actor.max_token_len
inline constexpr double kDefaultMaxErrorRate = 0.1;     ///< reward.max_error_rate
inline constexpr int kMostTensorRanks = 64;             ///< Bound of parallel.tp.
inline constexpr int kMostDataRanks = 1024;             ///< Bound of parallel.dp.

}  // namespace baton

#endif  // BATON_SDK_SCHEMA_SPEC_DEFAULTS_H_
