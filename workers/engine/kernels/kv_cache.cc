#include "workers/engine/kernels/kv_cache.h"

#include <algorithm>
#include <exception>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "workers/engine/kernels/kernel_dispatch.h"

namespace baton::engine {

torch::Dtype KvCache::StoredType(torch::Dtype dtype, torch::Device device) {
  const bool narrow = torch::elementSize(dtype) < torch::elementSize(torch::kFloat32);
  return device.is_cpu() && narrow ? torch::kFloat32 : dtype;
}

int64_t KvCache::BlockBytes(const ModelConfig& config, torch::Dtype dtype, torch::Device device) {
  return 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim *
         kBlockTokens * static_cast<int64_t>(torch::elementSize(StoredType(dtype, device)));
}

absl::StatusOr<std::unique_ptr<KvCache>> KvCache::Create(const ModelConfig& config,
                                                         torch::Dtype dtype, torch::Device device,
                                                         int64_t budget_bytes) {
  const int64_t heads = config.num_key_value_heads;
  const int64_t channels = config.head_dim;
  const int64_t block_bytes = BlockBytes(config, dtype, device);
  const int64_t num_blocks =
      std::min<int64_t>(budget_bytes / block_bytes, std::numeric_limits<int32_t>::max());
  if (num_blocks < 1) {
    return absl::InvalidArgumentError(absl::StrCat("kv_cache_bytes: ", budget_bytes,
                                                   " does not hold one block of ", kBlockTokens,
                                                   " tokens, which takes ", block_bytes, " bytes"));
  }
  auto cache = std::unique_ptr<KvCache>(new KvCache(num_blocks, block_bytes));
  const auto options = torch::TensorOptions().dtype(StoredType(dtype, device)).device(device);
  try {
    for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
      cache->keys_.push_back(torch::empty({num_blocks, heads, channels, kBlockTokens}, options));
      cache->values_.push_back(torch::empty({num_blocks, heads, kBlockTokens, channels}, options));
    }
  } catch (const std::exception& error) {
    return absl::ResourceExhaustedError(absl::StrCat("kv_cache_bytes: cannot reserve ",
                                                     budget_bytes, " bytes on ", device.str(), ": ",
                                                     error.what()));
  }
  return cache;
}

std::optional<int32_t> KvCache::Allocate() {
  if (!free_.empty()) {
    const int32_t block = free_.back();
    free_.pop_back();
    return block;
  }
  if (fresh_ == num_blocks_) return std::nullopt;
  Clear(fresh_);
  return static_cast<int32_t>(fresh_++);
}

// The kernel computes scores for a whole block, and leaves out those of places that hold no token.
// The memory's earlier contents may be tiny numbers, on which processors take up to a hundred times
// as long.
void KvCache::Clear(int64_t block) {
  if (!keys_[0].is_cpu()) return;
  const torch::NoGradGuard no_grad;
  for (size_t layer = 0; layer < keys_.size(); ++layer) {
    keys_[layer][block].zero_();
    values_[layer][block].zero_();
  }
}

void KvCache::Free(std::vector<int32_t>& blocks) {
  free_.insert(free_.end(), blocks.rbegin(), blocks.rend());
  blocks.clear();
}

void KvCache::MoveTokens(absl::Span<const Move> moves) {
  if (moves.empty()) return;
  if (!keys_[0].is_cpu()) return MoveWithOperators(moves);
  // By hand: it is a few numbers, and each operator of libtorch takes longer than all of them.
  ForType(keys_[0], [&](auto zero) { MoveInMemory<decltype(zero)>(moves); });
}

template <typename T>
void KvCache::MoveInMemory(absl::Span<const Move> moves) {
  const int64_t heads = values_[0].size(1), channels = values_[0].size(3);
  const auto count = static_cast<int64_t>(moves.size());
  std::vector<T> moved(count * 2 * heads * channels);
  for (size_t layer = 0; layer < keys_.size(); ++layer) {
    T* const keys = keys_[layer].data_ptr<T>();
    T* const values = values_[layer].data_ptr<T>();
    // The first key of a token's head, kBlockTokens from one channel to the next; its first value.
    const auto key = [&](const Slot& slot, int64_t head) {
      return keys + (slot.block * heads + head) * channels * kBlockTokens + slot.offset;
    };
    const auto value = [&](const Slot& slot, int64_t head) {
      return values + ((slot.block * heads + head) * kBlockTokens + slot.offset) * channels;
    };
    T* next = moved.data();
    for (const Move& move : moves) {
      for (int64_t head = 0; head < heads; ++head, next += 2 * channels) {
        for (int64_t c = 0; c < channels; ++c) next[c] = key(move.from, head)[c * kBlockTokens];
        std::copy_n(value(move.from, head), channels, next + channels);
      }
    }
    next = moved.data();
    for (const Move& move : moves) {
      for (int64_t head = 0; head < heads; ++head, next += 2 * channels) {
        for (int64_t c = 0; c < channels; ++c) key(move.to, head)[c * kBlockTokens] = next[c];
        std::copy_n(next + channels, channels, value(move.to, head));
      }
    }
  }
}

void KvCache::MoveWithOperators(absl::Span<const Move> moves) {
  using torch::indexing::Slice;
  std::vector<int64_t> numbers[4];
  for (const Move& move : moves) {
    numbers[0].push_back(move.from.block);
    numbers[1].push_back(move.from.offset);
    numbers[2].push_back(move.to.block);
    numbers[3].push_back(move.to.offset);
  }
  torch::Tensor index[4];
  for (int i = 0; i < 4; ++i) {
    index[i] = torch::tensor(numbers[i], torch::kInt64).to(keys_[0].device());
  }
  for (size_t layer = 0; layer < keys_.size(); ++layer) {
    torch::Tensor& keys = keys_[layer];
    keys.index_put_({index[2], Slice(), Slice(), index[3]},
                    keys.index({index[0], Slice(), Slice(), index[1]}));
    torch::Tensor& values = values_[layer];
    values.index_put_({index[2], Slice(), index[3]}, values.index({index[0], Slice(), index[1]}));
  }
}

}  // namespace baton::engine
