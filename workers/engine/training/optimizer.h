// AdamW with gradient clipping, over the parameters of one model.
//
// Update number t (from 1), for each parameter p with gradient g (Loshchilov & Hutter 2019, the
// order of operations of torch.optim.AdamW):
//   g <- g * min(1, grad_clip / (|g| + 1e-6))      |g|: norm over all parameters together
//   p <- p - lr * weight_decay * p                 matrices; vectors with decay_norms_and_biases
//   m <- m + (1 - beta1) (g - m)        v <- beta2 v + (1 - beta2) g^2
//   p <- p - lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
// with the lr that the caller takes from the schedule, which counts the job's steps and not t. The
// vectors of a model are its norms and biases: Megatron decays no parameter of one dimension and no
// bias, Hugging Face's trainer no norm and no bias.
#ifndef BATON_WORKERS_ENGINE_TRAINING_OPTIMIZER_H_
#define BATON_WORKERS_ENGINE_TRAINING_OPTIMIZER_H_

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sdk/common/schema/optimizer_options.h"
#include "workers/engine/model/weights_io.h"
#include "workers/engine/training/lr_schedule.h"

namespace baton::engine {

/// The interface of optimizers for a trainer. The ranks of a group call all but `step` and
/// `schedule` together. May throw libtorch's exceptions and CollectiveError.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// Call before the first backward pass of an update.
  virtual void ZeroGradients() = 0;
  /// The next backward pass through the body is this update's last; heads have had theirs. May be
  /// left out: then nothing overlaps with it.
  virtual void ExpectLastBackward() {}
  /// Adds up the ranks' gradients. After the last backward pass, also on a rank that made none.
  virtual void ReduceGradients() {}
  /// The norm of the whole gradient, summed in float64. FailedPrecondition if it is not finite,
  /// naming the first parameter whose gradient is not; nothing may be applied then.
  virtual absl::StatusOr<double> GradientNorm() const = 0;
  /// Applies the gradients, clipped by `gradient_norm` (from GradientNorm), at `lr` (of the
  /// schedule). Counts one step.
  virtual void Step(double gradient_norm, double lr) = 0;

  virtual int64_t step() const = 0;  ///< Updates applied so far.
  virtual const LrSchedule& schedule() const = 0;

  /// One safetensors file: exp_avg.NAME and exp_avg_sq.NAME for every parameter, whole, and step
  /// (I64), whatever the ranks. Atomic; one of the ranks writes. Loading restores the same bits; a
  /// file that does not fit these parameters is InvalidArgument or NotFound and changes nothing.
  [[nodiscard]] virtual absl::Status Save(const std::string& path) const = 0;
  [[nodiscard]] virtual absl::Status Load(const std::string& path) = 0;
};

/// Owns the moments and the gradients, not the parameters. The gradients of all parameters are
/// slices of one buffer, so clearing, measuring and scaling them is one operation each; autograd
/// adds to them in place. One thread at a time. CPU or CUDA.
class AdamW final : public Optimizer {
 public:
  using Parameters = std::vector<std::pair<std::string, torch::Tensor>>;

  /// Sets requires_grad on the parameters, which are leaves in float32 or float64, all of one dtype
  /// and device, and points their grad() into the buffer. InvalidArgument lists every bad option.
  static absl::StatusOr<AdamW> Create(const Parameters& parameters, const OptimizerSpec& spec);

  void ZeroGradients() override;
  absl::StatusOr<double> GradientNorm() const override;
  void Step(double gradient_norm, double lr) override;
  int64_t step() const override { return step_; }
  const LrSchedule& schedule() const override { return schedule_; }
  [[nodiscard]] absl::Status Save(const std::string& path) const override;
  [[nodiscard]] absl::Status Load(const std::string& path) override;

 private:
  struct Slot {
    std::string name;
    torch::Tensor parameter, gradient, exp_avg, exp_avg_sq;
  };
  AdamW(OptimizerSpec spec, LrSchedule schedule) : spec_(std::move(spec)), schedule_(schedule) {}

  void Attach(const Parameters& parameters);
  NamedTensors State() const;

  OptimizerSpec spec_;
  LrSchedule schedule_;
  torch::Tensor gradients_;  ///< All gradients, flat.
  std::vector<Slot> slots_;
  int64_t step_ = 0;
};

// Parts of AdamW that optimizers divided among ranks share (sharded_adamw.h).

/// InvalidArgument lists every bad option, and a parameter that AdamW::Create would not take.
absl::StatusOr<LrSchedule> CheckAdamW(const AdamW::Parameters& parameters,
                                      const OptimizerSpec& spec);

/// The sum of the squares of all elements, in float64 whatever the dtype: a scalar on the tensor's
/// device. (In float32 a long sum loses the terms that are small beside it.) Takes little memory.
torch::Tensor SquaredNorm(const torch::Tensor& tensor);

/// The factor that clips a gradient of this norm; 1: it stays as it is.
double ClipScale(const OptimizerSpec& spec, double gradient_norm);

/// Decays some elements of `parameter`, in place.
void DecayWeights(const OptimizerSpec& spec, double lr, const torch::Tensor& parameter,
                  torch::Tensor elements);

/// Update number `t` of some elements of a parameter, which were decayed. All tensors have one
/// shape; gradient clipped.
void AdamWUpdate(const OptimizerSpec& spec, double lr, int64_t t, torch::Tensor parameter,
                 const torch::Tensor& gradient, torch::Tensor exp_avg, torch::Tensor exp_avg_sq);

/// Writes the state as Save says. `state`: moments under their names in the file.
[[nodiscard]] absl::Status SaveAdamWState(const std::string& path, NamedTensors state,
                                          int64_t step);

/// Fills `state`, and returns the step. Errors as Load's; `state` may be filled in part then.
absl::StatusOr<int64_t> LoadAdamWState(const std::string& path, std::vector<TensorPart> state);

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_TRAINING_OPTIMIZER_H_
