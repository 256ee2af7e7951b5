// Tensor parallelism (Megatron-LM, arXiv 1909.08053): the slice of each parameter that a rank
// holds, and the two operators between ranks.
//
//   rows of the weight (outputs) cut     q, k, v, gate, up; embedding and head by vocabulary
//   columns of the weight (inputs) cut   o, down: each rank has a partial sum
//   cut by heads                         norms of queries and keys over all heads together (OLMo 2)
//   whole on every rank                  other norms, biases of o and down, anything else
//
// Rank r of `size` has [r n / size, (r + 1) n / size) of n: the slices of a size that divides
// another contain that one's slices. Heads divide evenly; vocabulary and intermediate size need
// not. Whole parameters have the same values and the same gradients, bitwise, on every rank.
#ifndef BATON_WORKERS_ENGINE_MODEL_TENSOR_PARALLEL_H_
#define BATON_WORKERS_ENGINE_MODEL_TENSOR_PARALLEL_H_

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "relay/weights/box.h"
#include "sdk/common/schema/model_config.h"
#include "workers/engine/model/communicator.h"

namespace baton::engine {

/// InvalidArgument naming every size of the config that `size` ranks cannot share.
[[nodiscard]] absl::Status CheckTensorParallel(const ModelConfig& config, int size);

/// The config with heads, intermediate size and vocabulary of one rank.
ModelConfig LocalConfig(const ModelConfig& config, int rank, int size);

/// One parameter as a rank holds it.
struct ParameterShard {
  std::string name;
  std::vector<int64_t> shape;  ///< Shape of the whole tensor.
  relay::Box box;              ///< This rank's part of the tensor.

  bool whole() const { return box == relay::Box::Full(shape); }
};

/// `local_shape`: of the slice that rank `rank` holds, as the model of LocalConfig has it.
ParameterShard ShardOf(const ModelConfig& config, absl::string_view name,
                       absl::Span<const int64_t> local_shape, int rank, int size);

/// A view of the elements of `box` in `whole`.
torch::Tensor SliceOf(const torch::Tensor& whole, const relay::Box& box);

/// x, the same on every rank -> itself; its gradient is the sum of the ranks' gradients. Stands
/// before a product with weights whose rows are cut. `group` null: nothing happens.
torch::Tensor EnterParallel(const torch::Tensor& x, Communicator* group);

/// The sum of every rank's x, whose memory it takes; gradients pass as they are. Stands behind a
/// product with weights whose columns are cut. `group` null: nothing happens.
torch::Tensor LeaveParallel(const torch::Tensor& x, Communicator* group);

/// Throws for ids outside a vocabulary of `vocab_size`.
void CheckTokens(const torch::Tensor& ids, int64_t vocab_size);

/// Rows of a slice of an embedding, whose first row is `begin`; zeros for ids elsewhere.
torch::Tensor EmbeddingRows(const torch::Tensor& ids, const torch::Tensor& weight, int64_t begin);

/// Rows of an embedding whose vocabulary is cut: ids [N] of the whole vocabulary of `vocab_size`,
/// weight [end - begin, D] -> [N, D], whole. Throws for ids outside the vocabulary.
torch::Tensor ParallelEmbedding(const torch::Tensor& ids, const torch::Tensor& weight,
                                int64_t begin, int64_t vocab_size, Communicator& group);

/// Columns of every rank side by side: local [M, width of the rank] -> [M, total]. No gradients.
torch::Tensor GatherColumns(const torch::Tensor& local, int64_t total, Communicator& group);

/// The whole tensor of which every rank holds `local`, its `shard`. A copy, on every rank.
torch::Tensor GatherWhole(const torch::Tensor& local, const ParameterShard& shard,
                          const ModelConfig& config, Communicator& group);

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_MODEL_TENSOR_PARALLEL_H_
