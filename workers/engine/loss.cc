#include "workers/engine/loss.h"

#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "workers/engine/aggregation.h"

namespace baton::engine {
namespace {

constexpr double kMaxLogRatio = 20.0;

bool FiniteAtLeast(double value, double bound) { return std::isfinite(value) && value >= bound; }

torch::Tensor NegativeEntropyOf(const torch::Tensor& log_softmax) {
  return (log_softmax.exp() * log_softmax).sum(-1);
}

}  // namespace

absl::Status Validate(const LossSpec& spec) {
  std::vector<std::string> errors;
  if (auto mode = ParseLossAggregation(spec.loss_agg_mode); !mode.ok()) {
    errors.emplace_back(mode.status().message());
  }
  const auto check = [&](bool ok, absl::string_view name, double value, absl::string_view want) {
    if (!ok) errors.push_back(absl::StrCat(name, ": ", value, " is not ", want));
  };
  check(spec.clip_ratio_low >= 0 && spec.clip_ratio_low <= 1, "clip_ratio_low", spec.clip_ratio_low,
        "in [0, 1]");
  check(FiniteAtLeast(spec.clip_ratio_high, 0), "clip_ratio_high", spec.clip_ratio_high,
        "a finite number of at least 0");
  check(spec.clip_ratio_c == 0 || (std::isfinite(spec.clip_ratio_c) && spec.clip_ratio_c > 1),
        "clip_ratio_c", spec.clip_ratio_c, "above 1 (or 0 for no dual clip)");
  check(FiniteAtLeast(spec.loss_scale_factor, 0), "loss_scale_factor", spec.loss_scale_factor,
        "a finite number of at least 0");
  check(std::isfinite(spec.entropy_coeff), "entropy_coeff", spec.entropy_coeff, "finite");
  check(std::isfinite(spec.kl_loss_coef), "kl_loss_coef", spec.kl_loss_coef, "finite");
  check(std::isfinite(spec.temperature) && spec.temperature > 0, "temperature", spec.temperature,
        "a finite number above 0");
  if (spec.kl_loss_type != "k1" && spec.kl_loss_type != "k2" && spec.kl_loss_type != "k3") {
    errors.push_back(absl::StrCat("kl_loss_type: '", spec.kl_loss_type, "' is not k1, k2 or k3"));
  }
  if (errors.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrJoin(errors, "; "));
}

TokenScores ScoreTokens(const torch::Tensor& logits, const torch::Tensor& targets,
                        double temperature, EntropyMode entropy, const VocabularyShard& shard) {
  torch::Tensor scaled = logits;
  if (scaled.scalar_type() != torch::kFloat64) scaled = scaled.to(torch::kFloat32);
  if (temperature != 1) scaled = scaled / temperature;
  if (shard.group != nullptr) {
    const ParallelScores scores =
        ScoreShardedTokens(scaled, targets, shard, entropy == EntropyMode::kGradient);
    return {scores.log_probs, entropy == EntropyMode::kNone ? torch::Tensor() : scores.entropy};
  }
  const torch::Tensor log_softmax = torch::log_softmax(scaled, -1);
  TokenScores scores;
  scores.log_probs = log_softmax.gather(-1, targets.unsqueeze(-1)).squeeze(-1);
  if (entropy == EntropyMode::kGradient) {
    scores.entropy = NegativeEntropyOf(log_softmax).neg();
  } else if (entropy == EntropyMode::kValue) {
    torch::NoGradGuard no_grad;
    scores.entropy = NegativeEntropyOf(log_softmax).neg();
  }
  return scores;
}

PpoClipTerms PpoClip(const torch::Tensor& log_probs, const torch::Tensor& old_log_probs,
                     const torch::Tensor& advantages, const LossSpec& spec) {
  const torch::Tensor log_ratio = (log_probs - old_log_probs).clamp(-kMaxLogRatio, kMaxLogRatio);
  const torch::Tensor ratio = log_ratio.exp();
  const torch::Tensor minus_advantages = -advantages;
  const torch::Tensor plain = minus_advantages * ratio;
  const torch::Tensor bounded =
      minus_advantages * ratio.clamp(1 - spec.clip_ratio_low, 1 + spec.clip_ratio_high);
  PpoClipTerms terms;
  terms.loss = torch::maximum(plain, bounded);
  terms.clipped = (bounded.detach() > plain.detach()).to(log_probs.scalar_type());
  terms.clipped_lower = torch::zeros_like(terms.clipped);
  terms.kl = log_ratio.detach().neg();
  if (spec.clip_ratio_c == 0) return terms;
  const torch::Tensor ceiling = minus_advantages * spec.clip_ratio_c;
  const torch::Tensor lower = (advantages < 0) & (terms.loss.detach() > ceiling);
  terms.clipped_lower = lower.to(log_probs.scalar_type());
  terms.loss = torch::where(lower, ceiling, terms.loss);
  return terms;
}

torch::Tensor KlPenalty(const torch::Tensor& log_probs, const torch::Tensor& ref_log_probs,
                        absl::string_view type) {
  const torch::Tensor d = log_probs - ref_log_probs;
  if (type == "k1") return d;
  if (type == "k2") return d * d * 0.5;
  const torch::Tensor bounded = d.clamp(-kMaxLogRatio, kMaxLogRatio);
  return (-bounded).exp() + bounded - 1;
}

}  // namespace baton::engine
