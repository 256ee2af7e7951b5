#include "workers/engine/model/vocabulary_parallel.h"

namespace baton::engine {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

/// The places where a rank holds the targets' columns.
struct Places {
  Tensor column;  ///< [M, 1] int64; 0 where it does not.
  Tensor here;    ///< [M] bool.
};

Places PlacesOf(const Tensor& targets, int64_t begin, int64_t columns) {
  const Tensor column = targets - begin;
  const Tensor here = (column >= 0).logical_and(column < columns);
  return {column.masked_fill(here.logical_not(), 0).unsqueeze(1), here};
}

struct ScoreFunction : torch::autograd::Function<ScoreFunction> {
  static variable_list forward(AutogradContext* ctx, const Tensor& x, const Tensor& targets,
                               int64_t begin, int64_t group_address, bool entropy_gradient) {
    Communicator& group = *reinterpret_cast<Communicator*>(group_address);
    const Tensor largest = x.amax(1).contiguous();
    group.AllReduce(largest, Reduction::kMax);
    const Tensor above = x - largest.unsqueeze(1);
    const Tensor weights = above.exp();
    const Places places = PlacesOf(targets, begin, x.size(1));
    const Tensor target = above.gather(1, places.column).squeeze(1).mul(places.here);
    // In one message: sum of exp, the target's logit, the sum weighted with the logits.
    const Tensor sums = torch::stack({weights.sum(1), target, (weights * above).sum(1)});
    group.AllReduce(sums);
    const Tensor log_sum = sums[0].log();
    const Tensor entropy = log_sum - sums[2] / sums[0];
    ctx->save_for_backward({x, targets, largest + log_sum, entropy});
    ctx->saved_data["begin"] = begin;
    ctx->saved_data["entropy_gradient"] = entropy_gradient;
    return {sums[1] - log_sum, entropy};
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &targets = saved[1], &log_sum_exp = saved[2], &entropy = saved[3];
    const Tensor log_p = x - log_sum_exp.unsqueeze(1);
    const Tensor p = log_p.exp();
    Tensor dx = torch::zeros_like(x);
    if (grads[0].defined()) {
      const Places places = PlacesOf(targets, ctx->saved_data["begin"].toInt(), x.size(1));
      dx.sub_(p * grads[0].unsqueeze(1));
      dx.scatter_add_(1, places.column, (grads[0] * places.here).unsqueeze(1));
    }
    if (ctx->saved_data["entropy_gradient"].toBool() && grads[1].defined()) {
      dx.sub_(p * (log_p + entropy.unsqueeze(1)) * grads[1].unsqueeze(1));
    }
    return {dx, Variable(), Variable(), Variable(), Variable()};
  }
};

}  // namespace

ParallelScores ScoreShardedTokens(const Tensor& scaled, const Tensor& targets,
                                  const VocabularyShard& shard, bool entropy_gradient) {
  const variable_list scores = ScoreFunction::apply(
      scaled, targets, shard.begin, reinterpret_cast<int64_t>(shard.group), entropy_gradient);
  return {scores[0], entropy_gradient ? scores[1] : scores[1].detach()};
}

Tensor IsLargest(const Tensor& logits, const Tensor& targets, const VocabularyShard& shard) {
  torch::NoGradGuard no_grad;
  const Tensor x = logits.to(torch::kFloat32);
  const Tensor largest = x.amax(1).contiguous();
  if (shard.group == nullptr) return x.gather(1, targets.unsqueeze(1)).squeeze(1) >= largest;
  shard.group->AllReduce(largest, Reduction::kMax);
  const Places places = PlacesOf(targets, shard.begin, x.size(1));
  // One rank has the target's logit of a row, and the others add 0.
  const Tensor target = x.gather(1, places.column).squeeze(1).mul(places.here).contiguous();
  shard.group->AllReduce(target);
  return target >= largest;
}

}  // namespace baton::engine
