// What the scoring roles share: from a Score task to the model's numbers and back.
#ifndef BATON_WORKERS_SCORING_SCORE_TASKS_H_
#define BATON_WORKERS_SCORING_SCORE_TASKS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "baton/v1/job_spec.pb.h"
#include "baton/v1/worker_service.pb.h"
#include "sdk/worker/task_context.h"
#include "workers/engine/micro_batch.h"
#include "workers/policy/policy_source.h"
#include "workers/scoring/score_loop.h"

namespace baton::scoring {

struct ScoringOptions {
  std::string device = "cpu";  ///< As torch names it.
  std::string group_host;      ///< trainer::Ranks::Join; of a critic.
  int credits = 256;           ///< Tasks at once: what can be gathered into one micro-batch.
};

/// Weights are float32 while they score, whatever they are stored as: the same as the trainer's.
inline constexpr torch::Dtype kScoreDtype = torch::kFloat32;

/// Has `loop` score `sequence` (or ends the task with its error), and the task end with what
/// `make_result` makes of the numbers.
void ScoreTask(ScoreLoop& loop, std::shared_ptr<TaskContext> context,
               absl::StatusOr<engine::TrainSequence> sequence,
               std::function<v1::TaskResult(const std::vector<float>&)> make_result);

/// ScoreTask for a column of one number per response token, named by OutputName
/// (sdk/worker/score_output.h).
void ScoreColumn(ScoreLoop& loop, std::shared_ptr<TaskContext> context,
                 absl::string_view default_name);

/// Tokens of a micro-batch: `asked`, else spec.actor.max_token_len. On a CPU no more than its
/// caches hold (engine/log_probs.h), which changes no result.
int64_t BatchBudget(int64_t asked, const v1::JobSpec& spec, bool on_cpu);

/// No limit: the loop has cut the micro-batch already.
int64_t NoTokenLimit();

/// True when both give every id the same meaning, so that one may read the other's tokens.
bool SameTokens(const engine::Tokenizer& a, const engine::Tokenizer& b);

/// INVALID_ARGUMENT naming `key` when `model` does not read the tokens of the job's policy.
[[nodiscard]] absl::Status CheckReadsPolicyTokens(const v1::AssignRole& assign,
                                                  const policy::PolicySource& model,
                                                  absl::string_view key);

/// UNIMPLEMENTED for a group of several ranks.
[[nodiscard]] absl::Status CheckOneRank(const v1::AssignRole& assign, absl::string_view role);

}  // namespace baton::scoring

#endif  // BATON_WORKERS_SCORING_SCORE_TASKS_H_
