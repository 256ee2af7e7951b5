// The interface of all ways of scoring a response.
#ifndef BATON_WORKERS_REWARD_REWARD_FUNCTION_H_
#define BATON_WORKERS_REWARD_REWARD_FUNCTION_H_

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "sdk/common/base/status_macros.h"

namespace baton::reward {

/// One turn of a prompt that is a conversation.
struct PromptMessage {
  std::string role;
  std::string content;
};

struct RewardInput {
  std::string prompt;  ///< As the data set gives it, before a chat template. See `messages`.
  std::string response;
  std::string prompt_suffix;  ///< What the chat template began the response with; often empty.
  std::string answer;         ///< Right answer of the data set; may be empty.
  std::string source;         ///< The data set's name.
  std::string extra;          ///< The data set's own fields as one JSON value; empty: none.
  /// Becomes true when the result is not wanted any more (then call NoticeCancelled); may be null.
  std::shared_ptr<const std::atomic<bool>> cancelled;
  /// The prompt, where the data set gives messages; then `prompt` has them as one text.
  std::vector<PromptMessage> messages;
  bool unanswered = false;  ///< The data set has no answer, not even an empty one.
};

struct RewardResult {
  double reward = 0;  ///< Finite. Without meaning when `error` is set.
  /// Further numbers by name, above all "accuracy": 1 when the response is correct, else 0.
  std::map<std::string, double> scores;
  std::string error;  ///< Not empty: THIS response could not be scored, and why. Valid UTF-8.
  /// The failure says nothing of the response: a process that ended, a time limit, a reply that
  /// cannot be read. Only with `error`.
  bool infra_failed = false;
  /// The function does not judge this response: it adds nothing to the reward, and has no score.
  bool skipped = false;
  std::string note;  ///< For people: why the reward is what it is; empty where that is plain.
};

/// Scores responses. Implementations are safe to call from any number of threads at once.
class RewardFunction {
 public:
  virtual ~RewardFunction() = default;

  /// A problem of one response or its data is the result's `error`; a status that is not OK means
  /// that this function can score nothing any more, or CANCELLED. May block.
  [[nodiscard]] virtual absl::StatusOr<RewardResult> Score(const RewardInput& input) = 0;

  /// The results of `inputs`, in their order. May be faster than one at a time.
  [[nodiscard]] virtual absl::StatusOr<std::vector<RewardResult>> ScoreBatch(
      absl::Span<const RewardInput> inputs) {
    std::vector<RewardResult> results;
    results.reserve(inputs.size());
    for (const RewardInput& input : inputs) {
      BATON_ASSIGN_OR_RETURN(RewardResult result, Score(input));
      results.push_back(std::move(result));
    }
    return results;
  }

  /// An input's `cancelled` has become true: its result is not waited for.
  virtual void NoticeCancelled() {}
};

}  // namespace baton::reward

#endif  // BATON_WORKERS_REWARD_REWARD_FUNCTION_H_
