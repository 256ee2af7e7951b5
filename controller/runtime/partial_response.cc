#include "controller/runtime/partial_response.h"

namespace baton::controller {

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

}  // namespace baton::controller
