#include "workers/scoring/score_tasks.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sdk/base/status_macros.h"
#include "sdk/worker/score_output.h"
#include "workers/engine/log_probs.h"
#include "workers/policy/trajectory_columns.h"
#include "workers/trainer/train_batch.h"

namespace baton::scoring {

void ScoreTask(ScoreLoop& loop, std::shared_ptr<TaskContext> context,
               absl::StatusOr<engine::TrainSequence> sequence,
               std::function<v1::TaskResult(const std::vector<float>&)> make_result) {
  if (!sequence.ok()) {
    context->Finish(sequence.status());
    return;
  }
  ScoreRequest request;
  request.sequence = *std::move(sequence);
  request.cancelled = [context] { return context->cancelled(); };
  request.done = [context,
                  make_result = std::move(make_result)](absl::StatusOr<std::vector<float>> scores) {
    if (scores.ok()) {
      context->Finish(make_result(*scores));
    } else {
      context->Finish(scores.status());
    }
  };
  loop.Add(std::move(request));
}

void ScoreColumn(ScoreLoop& loop, std::shared_ptr<TaskContext> context,
                 absl::string_view default_name) {
  const v1::Score& score = context->task().score();
  const std::string name = OutputName(score, default_name);
  auto sequence = trainer::FromColumns(score.trajectory());
  ScoreTask(loop, std::move(context), std::move(sequence),
            [name](const std::vector<float>& column) {
              v1::TaskResult result;
              *result.add_columns() = policy::MakeColumn(name, true, absl::MakeConstSpan(column));
              return result;
            });
}

int64_t BatchBudget(int64_t asked, const v1::JobSpec& spec, bool on_cpu) {
  const int64_t budget = asked > 0                          ? asked
                         : spec.actor().max_token_len() > 0 ? spec.actor().max_token_len()
                                                            : engine::kDefaultMaxTokenLen;
  return on_cpu ? std::min(budget, engine::kDefaultMaxTokenLen) : budget;
}

int64_t NoTokenLimit() { return std::numeric_limits<int64_t>::max(); }

bool SameTokens(const engine::Tokenizer& a, const engine::Tokenizer& b) {
  if (a.vocab_size() != b.vocab_size()) return false;
  for (int32_t id = 0; id < a.vocab_size(); ++id) {
    if (a.TokenBytes(id) != b.TokenBytes(id) || a.IsSpecial(id) != b.IsSpecial(id)) return false;
  }
  return true;
}

absl::Status CheckReadsPolicyTokens(const v1::AssignRole& assign, const policy::PolicySource& model,
                                    absl::string_view key) {
  BATON_ASSIGN_OR_RETURN(const auto policy,
                         policy::PolicySource::Open(assign.spec().model(), assign.checkpoint()));
  if (SameTokens(policy->tokenizer(), model.tokenizer()) &&
      policy->tokenizer().vocab_size() <= model.config().vocab_size) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(key,
                   ": its tokenizer is not that of spec.model, whose tokens it has to read; "
                   "name a model with the same tokenizer"));
}

absl::Status CheckOneRank(const v1::AssignRole& assign, absl::string_view role) {
  if (assign.world_size() <= 1) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("groups of ", assign.world_size(), " ranks for role ", role,
                   ": this worker plays it alone; set its parallel to 1 x 1"));
}

}  // namespace baton::scoring
