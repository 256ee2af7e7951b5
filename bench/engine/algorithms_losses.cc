#include "bench/engine/algorithms_losses.h"

#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "bench/support/report.h"
#include "sdk/common/schema/loss_options.h"
#include "workers/engine/training/trainer_loss.h"

namespace baton::bench {
namespace {

constexpr int64_t kResponse = 512;

LossSpec Spec(const std::string& name) {
  auto spec = MakeLossSpec(name, {{"use_kl_loss", true}});
  if (!spec.ok()) {
    std::fprintf(stderr, "algorithms_bench: %s\n", std::string(spec.status().message()).c_str());
    std::exit(1);
  }
  return *spec;
}

engine::LossColumns Columns(const torch::Tensor& log_probs) {
  const int64_t tokens = log_probs.size(0);
  engine::LossColumns columns;
  columns.weights = torch::full({tokens}, 1.0 / static_cast<double>(tokens));
  columns.old_log_probs = log_probs + 0.1 * torch::randn({tokens});
  columns.ref_log_probs = log_probs + 0.1 * torch::randn({tokens});
  columns.advantages = torch::randn({tokens});
  columns.sequences =
      torch::arange(tokens, torch::kInt64).div(kResponse, /*rounding_mode=*/"floor");
  return columns;
}

engine::PolicyTerms TermsOf(const torch::Tensor& log_probs, const engine::LossColumns& columns,
                            const LossSpec& spec) {
  const torch::Tensor& old = columns.old_log_probs;
  if (spec.kind == LossSpec::kGspo) {
    const torch::Tensor means = engine::SequenceMeans(log_probs.detach() - old, columns.sequences);
    return engine::Gspo(log_probs, old, means, columns.advantages, spec);
  }
  if (spec.kind == LossSpec::kCispo) {
    return engine::Cispo(log_probs, old, columns.advantages, spec);
  }
  if (spec.kind == LossSpec::kReinforce) {
    return engine::Reinforce(log_probs, old, columns.advantages);
  }
  return engine::PpoClip(log_probs, old, columns.advantages, spec);
}

}  // namespace

double LossTokensPerSecond(const std::string& loss, int64_t tokens, int repeats) {
  const LossSpec spec = Spec(loss);
  torch::manual_seed(1);
  const torch::Tensor values = -torch::rand({tokens}) - 0.5;
  const engine::LossColumns columns = Columns(values);
  const auto run = [&] {
    const torch::Tensor log_probs = values.detach().requires_grad_(true);
    const torch::Tensor kl = engine::KlPenalty(log_probs, columns.ref_log_probs, spec.kl_loss_type);
    const engine::PolicyTerms terms = TermsOf(log_probs, columns, spec);
    ((terms.loss + spec.kl_loss_coef * kl) * columns.weights).sum().backward();
  };
  run();  // warms up
  return static_cast<double>(tokens) / MedianSeconds(repeats, run);
}

double LogitsTokensPerSecond(const std::string& loss, int64_t tokens, int64_t vocabulary,
                             int repeats) {
  const LossSpec spec = Spec(loss);
  torch::manual_seed(1);
  const torch::Tensor values = torch::randn({tokens, vocabulary});
  const torch::Tensor targets = torch::randint(vocabulary, {tokens}, torch::kInt64);
  const engine::LossColumns columns =
      Columns(engine::ScoreTokens(values, targets, 1, engine::EntropyMode::kNone).log_probs);
  const auto run = [&] {
    const torch::Tensor logits = values.detach().requires_grad_(true);
    engine::LossSums sums;
    const auto name_row = [](int64_t row) { return std::to_string(row); };
    auto total = engine::WeightedLoss(logits, targets, columns, spec, name_row, sums);
    if (!total.ok()) std::exit(1);
    total->backward();
  };
  run();  // warms up
  return static_cast<double>(tokens) / MedianSeconds(repeats, run);
}

}  // namespace baton::bench
