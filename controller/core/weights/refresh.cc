#include "controller/core/weights/refresh.h"

#include <algorithm>
#include <cmath>

namespace baton::controller {
namespace {

constexpr size_t kLengths = 256;
// A judged token counts half as much after about 700 refreshes.
constexpr double kKeep = 0.999;

}  // namespace

void Refresh::NoteLength(uint32_t tokens) {
  if (lengths_.size() < kLengths) {
    lengths_.push_back(tokens);
    return;
  }
  lengths_[next_length_] = tokens;
  next_length_ = (next_length_ + 1) % kLengths;
}

void Refresh::NoteJudged(uint32_t drafted, uint32_t accepted, uint64_t updates) {
  accepted = std::min(accepted, drafted);
  drafted_ += drafted;
  accepted_ += accepted;
  // A response that ended within its draft differed there, because the drafted response had not
  // ended.
  const bool differed = accepted < drafted;
  // Each update between the weights may make a token differ.
  const auto steps = static_cast<double>(std::max<uint64_t>(1, updates));
  differed_ = kKeep * differed_ + (differed ? 1 : 0);
  judged_ = kKeep * judged_ + (accepted + (differed ? 1 : 0)) * steps;
}

double Refresh::Left(uint32_t tokens) const {
  double sum = 0, count = 0;
  for (const uint32_t length : lengths_) {
    if (length <= tokens) continue;
    sum += length - tokens;
    ++count;
  }
  if (count > 0) return sum / count;
  // No response was that long: expect as many tokens again, as a power law says, within the limit.
  const double most = tokens < longest_ ? longest_ - tokens : 0;
  return std::min<double>(most, std::max<double>(tokens, 1));
}

double Refresh::Accepted(double tokens, uint64_t updates) const {
  const double differ = std::min(1.0, differed_ / std::max(1.0, judged_));
  const double q = std::pow(1 - differ, static_cast<double>(std::max<uint64_t>(1, updates)));
  if (q >= 1) return tokens;
  return q * (1 - std::pow(q, tokens)) / (1 - q);
}

bool Refresh::Pays(const OutdatedReplica& replica) const {
  const auto places =
      static_cast<double>(std::max<uint64_t>(replica.places, replica.tokens.size()));
  const double idle_cost =
      std::isinf(replica.fixed_rows) ? 1 : replica.fixed_rows / (replica.fixed_rows + places);
  const double pass_cost = std::max(kPassShare, 1 - idle_cost);
  double longest = 0, all_left = 0, again = 0;
  for (const uint32_t tokens : replica.tokens) {
    const double left = Left(tokens);
    longest = std::max(longest, left);
    all_left += left;
    const double accepted = Accepted(tokens, replica.updates);
    again += tokens - accepted + pass_cost * accepted;
  }
  return again < idle_cost * (places * longest - all_left);
}

void Refresh::AddMetrics(std::map<std::string, double>& metrics) const {
  metrics["refresh/responses"] = static_cast<double>(recalled_);
  metrics["refresh/draft_tokens"] = static_cast<double>(drafted_);
  metrics["refresh/accepted_tokens"] = static_cast<double>(accepted_);
  if (drafted_ > 0) {
    metrics["refresh/accepted_share"] =
        static_cast<double>(accepted_) / static_cast<double>(drafted_);
  }
}

}  // namespace baton::controller
