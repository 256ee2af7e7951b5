#include "workers/engine/generation/stop_checker.h"

#include <algorithm>

namespace baton::engine {

StopChecker::StopChecker(const SamplingParams* params, const DecodeFunction* decode)
    : params_(params), decode_(decode) {
  for (const std::string& stop : params_->stop_strings) longest_ = std::max(longest_, stop.size());
}

bool StopChecker::Append(int32_t token) {
  ++length_;
  // The text is followed even where it may not stop yet: a stop string may begin there.
  const bool text_stops = longest_ > 0 && CompletesStopString(token);
  const auto& ids = params_->stop_token_ids;
  const bool token_stops =
      length_ > params_->min_new_tokens && std::find(ids.begin(), ids.end(), token) != ids.end();
  return token_stops || (text_stops && length_ >= params_->min_new_tokens);
}

bool StopChecker::CompletesStopString(int32_t token) {
  const size_t seen = tail_.size();
  tail_ += (*decode_)(absl::MakeConstSpan(&token, 1));
  const bool found = std::any_of(params_->stop_strings.begin(), params_->stop_strings.end(),
                                 [&](const std::string& stop) {
                                   // Only matches that end in the new text.
                                   const size_t overlap = std::min(seen, stop.size() - 1);
                                   return tail_.find(stop, seen - overlap) != std::string::npos;
                                 });
  if (tail_.size() >= longest_) {
    tail_.erase(0, tail_.size() - (longest_ - 1));
  }
  return found;
}

}  // namespace baton::engine
