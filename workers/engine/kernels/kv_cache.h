// Memory for the keys and values of running sequences, in blocks, within a byte budget.
#ifndef BATON_WORKERS_ENGINE_KERNELS_KV_CACHE_H_
#define BATON_WORKERS_ENGINE_KERNELS_KV_CACHE_H_

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "sdk/common/schema/model_config.h"

namespace baton::engine {

/// A pool of equal blocks. A block holds kBlockTokens consecutive tokens of one sequence, in every
/// layer. The caller that allocates a block owns it until Free. One thread at a time.
///
/// Keys are stored with the token innermost, so that scores of a whole block are one product of
/// lanes; values with the channel innermost.
class KvCache {
 public:
  static constexpr int64_t kBlockTokens = 16;
  /// The type in which keys and values of a model of type `dtype` are kept: its own, but on a CPU
  /// at least float32, for the kernel that reads them (cached_attention.h).
  static torch::Dtype StoredType(torch::Dtype dtype, torch::Device device);

  /// Size of one block of a model of type `dtype`, keys and values of all layers.
  static int64_t BlockBytes(const ModelConfig& config, torch::Dtype dtype, torch::Device device);

  /// Blocks needed for `tokens` tokens.
  static constexpr int64_t BlocksFor(int64_t tokens) {
    return (tokens + kBlockTokens - 1) / kBlockTokens;
  }

  /// Reserves as many blocks as `budget_bytes` hold; on a CPU, pages become memory as blocks are
  /// first used. InvalidArgument if the budget holds no block, ResourceExhausted if the memory
  /// cannot be reserved.
  static absl::StatusOr<std::unique_ptr<KvCache>> Create(const ModelConfig& config,
                                                         torch::Dtype dtype, torch::Device device,
                                                         int64_t budget_bytes);

  /// A free block; nothing if there is none. The block used last is handed out first. Its contents
  /// mean nothing.
  std::optional<int32_t> Allocate();

  /// Gives back every block of `blocks` and empties it.
  void Free(std::vector<int32_t>& blocks);

  /// The place of one token.
  struct Slot {
    int32_t block = 0;
    int64_t offset = 0;  // below kBlockTokens
  };
  struct Move {
    Slot from, to;
  };
  /// Copies the keys and values of tokens in every layer. All are read before any is written.
  void MoveTokens(absl::Span<const Move> moves);

  int64_t num_blocks() const { return num_blocks_; }
  int64_t num_free() const { return static_cast<int64_t>(free_.size()) + num_blocks_ - fresh_; }
  int64_t block_bytes() const { return block_bytes_; }

  /// Tensors of StoredType: keys [num_blocks, num_kv_heads, head_dim, kBlockTokens], values
  /// [num_blocks, num_kv_heads, kBlockTokens, head_dim].
  torch::Tensor& keys(int64_t layer) { return keys_[layer]; }
  torch::Tensor& values(int64_t layer) { return values_[layer]; }

 private:
  void Clear(int64_t block);
  template <typename T>
  void MoveInMemory(absl::Span<const Move> moves);
  void MoveWithOperators(absl::Span<const Move> moves);

  KvCache(int64_t num_blocks, int64_t block_bytes)
      : num_blocks_(num_blocks), block_bytes_(block_bytes) {}

  const int64_t num_blocks_;
  const int64_t block_bytes_;
  std::vector<torch::Tensor> keys_;    // one per layer
  std::vector<torch::Tensor> values_;  // one per layer
  std::vector<int32_t> free_;          // used before, a stack
  int64_t fresh_ = 0;                  // blocks from here on were never used
};

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_KERNELS_KV_CACHE_H_
