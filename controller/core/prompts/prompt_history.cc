#include "controller/core/prompts/prompt_history.h"

namespace baton::controller {

void PromptHistory::Note(const TrajectoryInfo& trajectory) {
  const PastResponse response = {trajectory.id, trajectory.serial, trajectory.policy_version,
                                 trajectory.tokens, trajectory.location};
  Note(PromptKey(trajectory), response);
}

void PromptHistory::Note(uint64_t prompt, const PastResponse& response) {
  if (response.location.file == 0 || response.tokens == 0) return;
  uint64_t& newest = newest_[prompt];
  const Row row = {response, prompt, /*before=*/newest};
  newest = first_ + rows_.size();
  rows_.push_back(row);
}

void PromptHistory::Retire(uint64_t serial) {
  while (!rows_.empty() && rows_.front().response.serial < serial) {
    const auto newest = newest_.find(rows_.front().prompt);
    if (newest->second == first_) newest_.erase(newest);
    rows_.pop_front();
    ++first_;
  }
}

std::vector<PastResponse> PromptHistory::Of(uint64_t prompt, size_t most) const {
  std::vector<PastResponse> responses;
  const auto newest = newest_.find(prompt);
  uint64_t place = newest == newest_.end() ? 0 : newest->second;
  for (; place >= first_ && responses.size() < most; place = rows_[place - first_].before) {
    responses.push_back(rows_[place - first_].response);
  }
  return responses;
}

}  // namespace baton::controller
