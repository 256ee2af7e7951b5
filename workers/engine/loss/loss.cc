#include "workers/engine/loss/loss.h"

#include <ATen/Parallel.h>

#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "sdk/common/schema/kl_type.h"
#include "workers/engine/kernels/row_softmax.h"
#include "workers/engine/loss/aggregation.h"

namespace baton::engine {
namespace {

constexpr double kMaxLogRatio = 20.0;
constexpr double kMaxSequenceLogRatio = 10.0;
constexpr double kMaxK3 = 10.0;
constexpr double kMaxK2Difference = 1e6;  // its square stays finite in float32

torch::Tensor NegativeEntropyOf(const torch::Tensor& log_softmax) {
  return (log_softmax.exp() * log_softmax).sum(-1);
}

torch::Tensor LogRatio(const torch::Tensor& log_probs, const torch::Tensor& old_log_probs) {
  return (log_probs - old_log_probs).clamp(-kMaxLogRatio, kMaxLogRatio);
}

/// max(-A ratio, -A clip(ratio)).
PolicyTerms ClippedSurrogate(const torch::Tensor& ratio, const torch::Tensor& advantages,
                             const LossSpec& spec) {
  const torch::Tensor minus_advantages = -advantages;
  const torch::Tensor plain = minus_advantages * ratio;
  const torch::Tensor bounded =
      minus_advantages * ratio.clamp(1 - spec.clip_ratio_low, 1 + spec.clip_ratio_high);
  PolicyTerms terms;
  terms.loss = torch::maximum(plain, bounded);
  terms.clipped = (bounded.detach() > plain.detach()).to(ratio.scalar_type());
  terms.clipped_lower = torch::zeros_like(terms.clipped);
  return terms;
}

torch::Tensor EstimateKl(const torch::Tensor& d, KlType::Estimate estimate) {
  if (estimate == KlType::kK1) return d;
  if (estimate == KlType::kAbs) return d.abs();
  if (estimate == KlType::kK2) {
    return d.clamp(-kMaxK2Difference, kMaxK2Difference).square() * 0.5;
  }
  const torch::Tensor bounded = d.clamp(-kMaxLogRatio, kMaxLogRatio);
  return ((-bounded).exp() + bounded - 1).clamp_max(kMaxK3);
}

/// [M] row_softmax.h's LogProb of each target, without gradients.
torch::Tensor SampledLogProbs(const torch::Tensor& logits, const torch::Tensor& targets,
                              double temperature) {
  const torch::Tensor rows = logits.detach().contiguous(), ids = targets.contiguous();
  torch::Tensor out = torch::empty({rows.size(0)}, rows.options());
  const int64_t vocab = rows.size(1);
  at::parallel_for(0, rows.size(0), /*grain_size=*/1, [&](int64_t begin, int64_t end) {
    std::vector<float> weights;
    for (int64_t row = begin; row < end; ++row) {
      out.data_ptr<float>()[row] =
          LogProb(absl::MakeConstSpan(rows.data_ptr<float>() + row * vocab, vocab),
                  ids.data_ptr<int64_t>()[row], temperature, &weights);
    }
  });
  return out;
}

/// The values of one tensor with the gradient of another.
struct ReplaceValues : torch::autograd::Function<ReplaceValues> {
  static torch::Tensor forward(torch::autograd::AutogradContext*, const torch::Tensor& x,
                               const torch::Tensor& values) {
    TORCH_CHECK(x.sizes() == values.sizes(), "ReplaceValues: ", x.sizes(), ", ", values.sizes());
    return values.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list grads) {
    return {grads[0], torch::Tensor()};
  }
};

}  // namespace

TokenScores ScoreTokens(const torch::Tensor& logits, const torch::Tensor& targets,
                        double temperature, EntropyMode entropy, const Scoring& scoring) {
  const VocabularyShard& shard = scoring.shard;
  torch::Tensor sampled;
  if (scoring.as_sampled && shard.group == nullptr && logits.device().is_cpu() &&
      logits.scalar_type() == torch::kFloat32) {
    sampled = SampledLogProbs(logits, targets, temperature);
    const bool grad = torch::GradMode::is_enabled() && logits.requires_grad();
    if (!grad && entropy == EntropyMode::kNone) return {sampled, {}};
  }
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
  if (sampled.defined()) scores.log_probs = ReplaceValues::apply(scores.log_probs, sampled);
  if (entropy == EntropyMode::kGradient) {
    scores.entropy = NegativeEntropyOf(log_softmax).neg();
  } else if (entropy == EntropyMode::kValue) {
    torch::NoGradGuard no_grad;
    scores.entropy = NegativeEntropyOf(log_softmax).neg();
  }
  return scores;
}

PolicyTerms PpoClip(const torch::Tensor& log_probs, const torch::Tensor& old_log_probs,
                    const torch::Tensor& advantages, const LossSpec& spec) {
  const torch::Tensor log_ratio = LogRatio(log_probs, old_log_probs);
  PolicyTerms terms = ClippedSurrogate(log_ratio.exp(), advantages, spec);
  terms.kl = log_ratio.detach().neg();
  if (spec.clip_ratio_c == 0) return terms;
  const torch::Tensor ceiling = -advantages * spec.clip_ratio_c;
  const torch::Tensor lower = (advantages < 0) & (terms.loss.detach() > ceiling);
  terms.clipped_lower = lower.to(log_probs.scalar_type());
  terms.loss = torch::where(lower, ceiling, terms.loss);
  return terms;
}

PolicyTerms Gspo(const torch::Tensor& log_probs, const torch::Tensor& old_log_probs,
                 const torch::Tensor& sequence_log_ratios, const torch::Tensor& advantages,
                 const LossSpec& spec) {
  // The difference first: it is exactly 0, and the ratio exactly the response's.
  const torch::Tensor log_ratio =
      (log_probs - log_probs.detach() + sequence_log_ratios).clamp_max(kMaxSequenceLogRatio);
  PolicyTerms terms = ClippedSurrogate(log_ratio.exp(), advantages, spec);
  terms.kl = LogRatio(log_probs.detach(), old_log_probs).neg();
  return terms;
}

PolicyTerms Cispo(const torch::Tensor& log_probs, const torch::Tensor& old_log_probs,
                  const torch::Tensor& advantages, const LossSpec& spec) {
  const torch::Tensor log_ratio = LogRatio(log_probs.detach(), old_log_probs);
  const torch::Tensor ratio = log_ratio.exp();
  const torch::Tensor weight = ratio.clamp(1 - spec.clip_ratio_low, 1 + spec.clip_ratio_high);
  PolicyTerms terms;
  terms.loss = -(weight * advantages) * log_probs;
  terms.clipped = (weight != ratio).to(log_probs.scalar_type());
  terms.clipped_lower = torch::zeros_like(terms.clipped);
  terms.kl = log_ratio.neg();
  return terms;
}

PolicyTerms Reinforce(const torch::Tensor& log_probs, const torch::Tensor& old_log_probs,
                      const torch::Tensor& advantages) {
  PolicyTerms terms;
  terms.loss = -advantages * log_probs;
  terms.clipped = terms.clipped_lower = torch::zeros_like(advantages);
  terms.kl = old_log_probs.defined() ? LogRatio(log_probs.detach(), old_log_probs).neg()
                                     : torch::zeros_like(advantages);
  return terms;
}

torch::Tensor SequenceMeans(const torch::Tensor& values, const torch::Tensor& sequences) {
  torch::NoGradGuard no_grad;
  if (values.numel() == 0) return values.detach();
  const int64_t count = sequences.max().item<int64_t>() + 1;
  const torch::Tensor exact = values.detach().to(torch::kFloat64);  // one after the other
  const torch::Tensor sums = torch::zeros({count}, exact.options()).index_add_(0, sequences, exact);
  const torch::Tensor sizes =
      torch::zeros({count}, exact.options()).index_add_(0, sequences, torch::ones_like(exact));
  const torch::Tensor means = sums.index_select(0, sequences) / sizes.index_select(0, sequences);
  return means.to(values.scalar_type());
}

torch::Tensor KlPenalty(const torch::Tensor& log_probs, const torch::Tensor& ref_log_probs,
                        absl::string_view type) {
  const KlType kl = ParseKlType(type).value_or(KlType());
  const torch::Tensor d = log_probs - ref_log_probs;
  if (!kl.straight_through) return EstimateKl(d, kl.estimate);
  const torch::Tensor k2 = EstimateKl(d, KlType::kK2);
  return k2 - k2.detach() + EstimateKl(d, kl.estimate).detach();
}

}  // namespace baton::engine
