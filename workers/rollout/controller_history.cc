#include "workers/rollout/controller_history.h"

#include <algorithm>
#include <utility>

#include "absl/time/time.h"
#include "sdk/common/base/status_macros.h"

namespace baton::rollout {
namespace {

constexpr absl::Duration kHistoryLimit = absl::Seconds(10);
// The share of the trees' memory that one answer may take: a token has some two bytes in an answer
// and fifty in a tree.
constexpr int64_t kBytesPerAnswer = 128;
constexpr int64_t kLeastAnswer = int64_t{64} << 10;

}  // namespace

ControllerHistory::ControllerHistory(const ExperienceClient* client, const v1::Task& task)
    : client_(client) {
  const v1::AssignRole& assign = task.assign_role();
  request_.set_job(task.job());
  request_.set_capability(assign.history_capability());
  request_.set_max_bytes(std::max(
      assign.spec().rollout().speculation().cache_bytes() / kBytesPerAnswer, kLeastAnswer));
}

absl::StatusOr<std::vector<HistoryResponse>> ControllerHistory::Fetch(
    absl::Span<const HistoryPrompt> prompts) {
  v1::FetchHistoryRequest request = request_;
  for (const HistoryPrompt& prompt : prompts) {
    v1::HistoryPrompt& asked = *request.add_prompts();
    asked.set_purpose(prompt.of_evaluation ? v1::PURPOSE_EVAL : v1::PURPOSE_TRAIN);
    asked.set_prompt_id(prompt.prompt_id);
  }
  BATON_ASSIGN_OR_RETURN(const auto responses,
                         client_->FetchHistory(request, kHistoryLimit, canceller_));
  std::vector<HistoryResponse> history;
  history.reserve(responses.size());
  for (const v1::EarlierResponse& response : responses) {
    history.push_back({{response.prompt_tokens().begin(), response.prompt_tokens().end()},
                       {response.tokens().begin(), response.tokens().end()},
                       response.policy_version()});
  }
  return history;
}

}  // namespace baton::rollout
