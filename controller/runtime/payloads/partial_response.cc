#include "controller/runtime/payloads/partial_response.h"

#include <algorithm>
#include <utility>

#include "absl/strings/string_view.h"
#include "sdk/common/messages/columns.h"

namespace baton::controller {
namespace {

// The whole values of a column; none, if the message lacks it.
template <typename Message, typename T>
void TakeColumn(const Message& message, absl::string_view name, std::vector<T>* values) {
  const v1::Column* const column = FindColumn(message, name);
  values->clear();
  if (column == nullptr) return;
  values->resize(column->data().size() / sizeof(T));
  std::copy_n(column->data().begin(), values->size() * sizeof(T),
              reinterpret_cast<char*>(values->data()));
}

}  // namespace

void PartialResponse::Append(const v1::Progress& progress) {
  const auto& sampling =
      progress.sampling_log_probs_size() > 0 ? progress.sampling_log_probs() : progress.log_probs();
  if (progress.sampling_log_probs_size() > 0 && sampling_log_probs.empty()) {
    sampling_log_probs = log_probs;  // for the earlier tokens both were the same
  }
  if (progress.sampling_log_probs_size() > 0 || !sampling_log_probs.empty()) {
    sampling_log_probs.insert(sampling_log_probs.end(), sampling.begin(), sampling.end());
  }
  tokens.insert(tokens.end(), progress.tokens().begin(), progress.tokens().end());
  log_probs.insert(log_probs.end(), progress.log_probs().begin(), progress.log_probs().end());
}

void PartialResponse::TakeAll(const v1::TaskResult& result) {
  TakeColumn(result, "tokens", &tokens);
  TakeColumn(result, "rollout_log_prob", &log_probs);
  TakeColumn(result, "sampling_log_prob", &sampling_log_probs);
}

void PartialResponse::DraftFrom(const v1::Trajectory& earlier) {
  TakeColumn(earlier, "tokens", &draft);
}

void PartialResponse::BecomeDraft() {
  // An older draft continues the tokens if they have accepted all of it so far.
  const bool within =
      tokens.size() < draft.size() && std::equal(tokens.begin(), tokens.end(), draft.begin());
  if (!within) draft = std::move(tokens);
  tokens.clear();
  log_probs.clear();
  sampling_log_probs.clear();
}

void PartialResponse::Fill(v1::Generate* generate) const {
  generate->mutable_resume_tokens()->Add(tokens.begin(), tokens.end());
  generate->mutable_resume_log_probs()->Add(log_probs.begin(), log_probs.end());
  generate->mutable_resume_sampling_log_probs()->Add(sampling_log_probs.begin(),
                                                     sampling_log_probs.end());
  if (tokens.size() >= draft.size() || !std::equal(tokens.begin(), tokens.end(), draft.begin())) {
    return;
  }
  generate->mutable_draft_tokens()->Add(draft.begin() + static_cast<int64_t>(tokens.size()),
                                        draft.end());
}

}  // namespace baton::controller
