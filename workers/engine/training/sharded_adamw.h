// AdamW (optimizer.h) divided among ranks: ZeRO stage 1 (arXiv 1910.02054).
//
// Every rank of a data group has all gradients of its slice of the model, in one flat buffer. The
// buffer is cut into equal parts, one for each rank of the group: a rank keeps the moments of its
// part alone, updates those weights, and the ranks exchange the new weights. Gradients are added
// up by all-reduce (Gloo has no reduce-scatter), in buckets that start during the last backward
// pass. Under a tensor group the norm of the gradient counts slices once each and whole
// parameters once.
#ifndef BATON_WORKERS_ENGINE_TRAINING_SHARDED_ADAMW_H_
#define BATON_WORKERS_ENGINE_TRAINING_SHARDED_ADAMW_H_

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sdk/common/schema/model_config.h"
#include "workers/engine/model/communicator.h"
#include "workers/engine/model/weights_io.h"
#include "workers/engine/training/gradient_buckets.h"
#include "workers/engine/training/optimizer.h"

namespace baton::engine {

struct ShardedAdamWOptions {
  Communicator* tensor_group = nullptr;  ///< Null: parameters are whole.
  Communicator* data_group = nullptr;    ///< Null: no other rank has a part of the batch.
  int64_t bucket_bytes = int64_t{4} << 20;
};

/// One thread at a time. Groups outlive it. CPU or CUDA.
class ShardedAdamW final : public Optimizer {
 public:
  /// Parameters as AdamW::Create takes them (ModelParts); `config` of the whole model.
  static absl::StatusOr<std::unique_ptr<ShardedAdamW>> Create(
      const ModelConfig& config, const std::vector<TensorPart>& parameters,
      const OptimizerSpec& spec, const ShardedAdamWOptions& options);

  void ZeroGradients() override;
  void ExpectLastBackward() override;
  void ReduceGradients() override;
  absl::StatusOr<double> GradientNorm() const override;
  /// Afterwards the parameters' grad() are undefined values until ZeroGradients.
  void Step(double gradient_norm, double lr) override;
  int64_t step() const override { return step_; }
  const LrSchedule& schedule() const override { return schedule_; }
  [[nodiscard]] absl::Status Save(const std::string& path) const override;
  [[nodiscard]] absl::Status Load(const std::string& path) override;

  /// Bytes of moments that this rank keeps.
  int64_t state_bytes() const { return static_cast<int64_t>(exp_avg_.nbytes() * 2); }
  /// Buckets of gradients, and how many of them started during backward passes so far.
  int64_t buckets() const { return buckets_ ? buckets_->buckets() : 0; }
  int64_t overlapped_buckets() const { return buckets_ ? buckets_->overlapped() : 0; }

 private:
  /// One parameter; its elements are [offset, offset + numel) of the flat order.
  struct Slot {
    ParameterShard shard;
    torch::Tensor parameter, gradient;
    int64_t offset = 0;
  };
  ShardedAdamW(const ModelConfig& config, OptimizerSpec spec, LrSchedule schedule,
               const ShardedAdamWOptions& options)
      : config_(config), spec_(std::move(spec)), schedule_(schedule), options_(options) {}

  void Attach(const std::vector<TensorPart>& parameters);
  int data_ranks() const;
  int data_rank() const;
  /// Visits each slot that this rank's part has elements of: `size` elements, which begin at `from`
  /// of the flat parameter and at `at` of the part.
  void ForEachSlotInPart(
      const std::function<void(size_t slot, int64_t from, int64_t at, int64_t size)>& visit) const;
  /// Copies what this rank's part and `tensors` (one per slot) have in common, into the part.
  void CopyIntoPart(const std::vector<torch::Tensor>& tensors, torch::Tensor part) const;
  /// Every rank's part, one after the other: the flat order.
  torch::Tensor GatherParts(const torch::Tensor& part) const;

  const ModelConfig config_;
  const OptimizerSpec spec_;
  const LrSchedule schedule_;
  const ShardedAdamWOptions options_;
  torch::Tensor gradients_;                   ///< Flat, padded to equal parts.
  std::vector<Slot> slots_;                   ///< In the order in which backward finishes them.
  int64_t part_size_ = 0;                     ///< Elements of a rank's part.
  torch::Tensor exp_avg_, exp_avg_sq_;        ///< [part_size_]
  std::unique_ptr<GradientBuckets> buckets_;  ///< With a data group.
  int64_t step_ = 0;
};

/// AdamW, or ShardedAdamW where a group has more than one rank.
absl::StatusOr<std::unique_ptr<Optimizer>> MakeOptimizer(const ModelConfig& config,
                                                         const std::vector<TensorPart>& parameters,
                                                         const OptimizerSpec& spec,
                                                         ShardedAdamWOptions options);

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_TRAINING_SHARDED_ADAMW_H_
