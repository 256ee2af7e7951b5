// A reward by a command of the user's own.
//
// Each request is one line on the command's stdin and each reply one line on its stdout:
//
//   {"id": 7, "prompt": "47+85:", "response": "… #132", "answer": "132", "source": "", "extra":
//   null}
//   {"id": 7, "reward": 1.0, "accuracy": 1.0}
//
// "prompt" is what the data set has under this key, before any chat template: a text, or a list of
// {"role": …, "content": …}. "reward" is a finite number. Further numbers (or true, false) are kept
// as scores. A reply
// {"id": 7, "error": "text"} says that this response cannot be scored; with "infra_failed": true
// that the reason is no fault of the response, as it is when the command ends, writes no reply that
// can be read or is too slow. Replies may come in any
// order. Several requests may be sent before the first reply; what is written to stderr is kept
// for error messages. The command ends when its stdin does. See command_pool.h for faults.
#ifndef BATON_WORKERS_REWARD_COMMAND_REWARD_H_
#define BATON_WORKERS_REWARD_COMMAND_REWARD_H_

#include <memory>

#include "absl/status/statusor.h"
#include "workers/reward/command_pool.h"
#include "workers/reward/reward_function.h"

namespace baton::reward {

/// Starts the processes at once; they end with the returned object. ScoreBatch spreads its inputs
/// over all processes. Score fails with UNAVAILABLE once the command was given up.
[[nodiscard]] absl::StatusOr<std::unique_ptr<RewardFunction>> CreateCommandReward(
    CommandOptions options);

}  // namespace baton::reward

#endif  // BATON_WORKERS_REWARD_COMMAND_REWARD_H_
