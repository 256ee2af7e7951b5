// AdamW with gradient clipping, over the parameters of one model.
//
// Update number t (from 1), for each parameter p with gradient g (Loshchilov & Hutter 2019, the
// order of operations of torch.optim.AdamW):
//   g <- g * min(1, grad_clip / (|g| + 1e-6))      |g|: norm over all parameters together
//   p <- p - lr * weight_decay * p
//   m <- m + (1 - beta1) (g - m)        v <- beta2 v + (1 - beta2) g^2
//   p <- p - lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
// with lr from the schedule at step t - 1. Weight decay is applied to every parameter.
#ifndef BATON_WORKERS_ENGINE_OPTIMIZER_H_
#define BATON_WORKERS_ENGINE_OPTIMIZER_H_

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "workers/engine/lr_schedule.h"

namespace baton::engine {

struct OptimizerSpec {
  double lr = 1e-6;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
  double grad_clip = 1.0;                ///< Largest norm of the whole gradient; 0: not clipped.
  int64_t lr_warmup_steps = 0;           ///< Optimizer steps, as all steps here.
  std::string lr_schedule = "constant";  ///< lr_schedule.h.
  double min_lr_ratio = 0;
  int64_t total_steps = 0;  ///< Where a decay ends; unused by "constant".
};

/// Owns the moments and the gradients, not the parameters. The gradients of all parameters are
/// slices of one buffer, so clearing, measuring and scaling them is one operation each; autograd
/// adds to them in place. One thread at a time. CPU or CUDA.
class AdamW {
 public:
  using Parameters = std::vector<std::pair<std::string, torch::Tensor>>;

  /// Sets requires_grad on the parameters, which are leaves in float32 or float64, all of one dtype
  /// and device, and points their grad() into the buffer. InvalidArgument lists every bad option.
  static absl::StatusOr<AdamW> Create(const Parameters& parameters, const OptimizerSpec& spec);

  /// Call before the first backward pass of an update.
  void ZeroGradients();

  /// The norm of the whole gradient. FailedPrecondition if it is not finite, naming the first
  /// parameter whose gradient is not; nothing may be applied then.
  absl::StatusOr<double> GradientNorm() const;

  /// Applies the gradients, clipped by `gradient_norm` (from GradientNorm). Counts one step.
  void Step(double gradient_norm);

  int64_t step() const { return step_; }  ///< Updates applied so far.
  double NextLearningRate() const { return schedule_.At(step_); }

  /// One safetensors file: exp_avg.NAME and exp_avg_sq.NAME for every parameter, and step (I64).
  /// Atomic. Loading restores the same bits; a file that does not fit these parameters is
  /// InvalidArgument or NotFound and changes nothing.
  [[nodiscard]] absl::Status Save(const std::string& path) const;
  [[nodiscard]] absl::Status Load(const std::string& path);

 private:
  struct Slot {
    std::string name;
    torch::Tensor parameter, gradient, exp_avg, exp_avg_sq;
  };
  AdamW(OptimizerSpec spec, LrSchedule schedule) : spec_(std::move(spec)), schedule_(schedule) {}

  void Attach(const Parameters& parameters);
  std::vector<std::pair<std::string, torch::Tensor>> State(const torch::Tensor& step) const;

  OptimizerSpec spec_;
  LrSchedule schedule_;
  torch::Tensor gradients_;  ///< All gradients, flat.
  std::vector<Slot> slots_;
  int64_t step_ = 0;
};

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_OPTIMIZER_H_
