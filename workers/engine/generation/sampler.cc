#include "workers/engine/generation/sampler.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "workers/engine/kernels/row_softmax.h"

namespace baton::engine {
namespace {

constexpr float kNegativeInfinity = -std::numeric_limits<float>::infinity();

}  // namespace

absl::Status ValidateSamplingParams(const SamplingParams& params, int64_t vocab_size) {
  std::vector<std::string> errors;
  if (!(params.temperature >= 0) || !std::isfinite(params.temperature)) {
    errors.push_back(
        absl::StrCat("temperature: ", params.temperature, " is not a finite number of at least 0"));
  }
  if (params.top_k < 0) {
    errors.push_back(absl::StrCat("top_k: ", params.top_k, " is negative; 0 keeps all tokens"));
  }
  if (!(params.top_p > 0 && params.top_p <= 1)) {
    errors.push_back(absl::StrCat("top_p: ", params.top_p, " is not in (0, 1]"));
  }
  if (params.max_new_tokens < 0) {
    errors.push_back(absl::StrCat("max_new_tokens: ", params.max_new_tokens, " is negative"));
  }
  if (params.min_new_tokens < 0 || params.min_new_tokens > params.max_new_tokens) {
    errors.push_back(absl::StrCat("min_new_tokens: ", params.min_new_tokens,
                                  " is not in [0, max_new_tokens = ", params.max_new_tokens, "]"));
  }
  for (int64_t id : params.stop_token_ids) {
    if (id < 0 || id >= vocab_size) {
      errors.push_back(
          absl::StrCat("stop_token_ids: ", id, " is not in the vocabulary of ", vocab_size));
    }
  }
  const std::set<int64_t> stops(params.stop_token_ids.begin(), params.stop_token_ids.end());
  if (params.min_new_tokens > 0 && static_cast<int64_t>(stops.size()) >= vocab_size) {
    errors.push_back(absl::StrCat("min_new_tokens: ", params.min_new_tokens,
                                  " cannot be had, since every token is a stop token"));
  }
  for (const std::string& text : params.stop_strings) {
    if (text.empty()) errors.push_back("stop_strings: an empty string would stop at once");
  }
  if (errors.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrJoin(errors, "; "));
}

bool Truncates(const SamplingParams& params) {
  if (params.temperature == 0) return false;
  return params.top_k > 0 || params.top_p < 1 || params.min_new_tokens > 0;
}

absl::StatusOr<SampledToken> Sampler::Sample(absl::Span<const float> logits,
                                             const SamplingParams& params,
                                             absl::Span<const int64_t> banned, double uniform) {
  const absl::Span<const float> all_logits = logits;
  if (!banned.empty()) {
    unbanned_.assign(logits.begin(), logits.end());
    for (int64_t id : banned) {
      if (!(logits[id] < std::numeric_limits<float>::infinity())) {
        return absl::InvalidArgumentError(
            absl::StrCat("cannot sample: the logit of banned token ", id, " is ", logits[id]));
      }
      unbanned_[id] = kNegativeInfinity;
    }
    logits = unbanned_;
  }
  const int64_t n = logits.size();
  const auto [maximum, nan] = MaximumOf(logits);
  if (nan || !std::isfinite(maximum)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot sample from logits whose highest is ", nan ? "NaN" : "",
                     nan ? "" : absl::StrCat(maximum),
                     n == 0 ? " (no tokens)" : " (diverged weights, or every token banned)"));
  }
  const bool greedy = params.temperature == 0;
  const double scale = LogitScale(params.temperature);
  SoftmaxWeights(logits, maximum, scale, &weights_);
  const double uncut = SumBlocks();  // of all tokens but the banned

  SampledToken out;
  if (greedy) {
    out.token = std::find(logits.begin(), logits.end(), maximum) - logits.begin();
  } else {
    const bool top_k = params.top_k > 0 && params.top_k < n;
    if (top_k) KeepTopK(logits, maximum, params.top_k);
    if (params.top_p < 1) KeepTopP(params.top_p);
    const double total = top_k || params.top_p < 1 ? SumBlocks() : uncut;
    out.token = Invert(uniform * total);
    out.sampling_log_prob = static_cast<float>(LogProbOf(logits[out.token], maximum, scale, total));
  }
  if (banned.empty()) {
    out.log_prob = static_cast<float>(LogProbOf(logits[out.token], maximum, scale, uncut));
  } else {
    out.log_prob = LogProb(all_logits, out.token, params.temperature, &weights_);
  }
  if (greedy) out.sampling_log_prob = out.log_prob;
  return out;
}

void Sampler::KeepTopK(absl::Span<const float> logits, float maximum, int64_t k) {
  // Ranks only the logits near the highest: as many as it takes to have k.
  for (float depth = 4; ranked_.clear(), true; depth *= 4) {
    const float lowest = depth > 1e6f ? kNegativeInfinity : maximum - depth;
    for (float logit : logits) {
      if (logit >= lowest) ranked_.push_back(logit);
    }
    if (static_cast<int64_t>(ranked_.size()) >= k) break;
  }
  std::nth_element(ranked_.begin(), ranked_.begin() + (k - 1), ranked_.end(), std::greater<>());
  const float lowest = ranked_[k - 1];
  int64_t ties = k;  // how many of the tokens at `lowest` stay
  for (float logit : logits) ties -= logit > lowest;
  for (size_t id = 0; id < logits.size(); ++id) {
    const bool keep = logits[id] > lowest || (logits[id] == lowest && ties-- > 0);
    if (!keep) weights_[id] = 0;
  }
}

void Sampler::KeepTopP(double p) {
  const double enough = p * SumBlocks();
  // Ranks only the higher weights (the highest is 1): as many as it takes to reach the share.
  for (float lowest = 1.0f / 64; heap_.clear(), true; lowest /= 64) {
    if (lowest < 1e-30f) lowest = std::numeric_limits<float>::denorm_min();
    double sum = 0;
    for (size_t id = 0; id < weights_.size(); ++id) {
      if (weights_[id] < lowest) continue;
      // The negated id makes the lower one the higher pair among equal weights.
      heap_.emplace_back(weights_[id], -static_cast<int64_t>(id));
      sum += weights_[id];
    }
    if (sum >= enough || lowest < 1e-30f) break;
  }
  std::make_heap(heap_.begin(), heap_.end());
  std::fill(weights_.begin(), weights_.end(), 0.0f);
  double kept = 0;
  for (auto end = heap_.end(); end != heap_.begin() && kept < enough; --end) {
    std::pop_heap(heap_.begin(), end);
    const auto& [weight, negated_id] = *(end - 1);
    weights_[-negated_id] = weight;
    kept += weight;
  }
}

// Returns the sum of all weights; that of each block stays in block_sums_.
double Sampler::SumBlocks() { return SumWeights(weights_, &block_sums_); }

// The first id at which the running sum of weights exceeds `target`.
int32_t Sampler::Invert(double target) const {
  double below = 0;
  for (size_t block = 0; block < block_sums_.size(); ++block) {
    if (!(below + block_sums_[block] > target)) {
      below += block_sums_[block];
      continue;
    }
    const size_t begin = block * kSummedIds;
    const size_t end = std::min(weights_.size(), begin + kSummedIds);
    double sum = 0;
    size_t last = begin;
    for (size_t id = begin; id < end; ++id) {
      sum += weights_[id];
      if (weights_[id] > 0) last = id;
      if (below + sum > target) {
        return static_cast<int32_t>(id);
      }
    }
    return static_cast<int32_t>(last);  // rounding hid the last step of the sum
  }
  // A target rounded up to the total: the last token that has a weight.
  size_t id = weights_.size();
  while (id > 1 && weights_[id - 1] == 0) --id;
  return static_cast<int32_t>(id - 1);
}

}  // namespace baton::engine
