// The groups of rows of a packed batch that are computed together: sequences of similar length,
// padded.
#ifndef BATON_WORKERS_ENGINE_KERNELS_PACKED_LAYOUT_H_
#define BATON_WORKERS_ENGINE_KERNELS_PACKED_LAYOUT_H_

#include <torch/custom_class.h>
#include <torch/torch.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace baton::engine {

/// Sequences of about one length.
struct PackedBucket {
  int64_t batch = 0;   ///< Sequences.
  int64_t length = 0;  ///< Length of the longest sequence; the others are padded at their end.
  /// The places of the padded sequences' heads: index into [N * heads] of place (sequence, head,
  /// token), flat. Padding names row 0: causal attention never looks at it.
  torch::Tensor q_places;   ///< [batch * num_heads * length]
  torch::Tensor kv_places;  ///< [batch * num_kv_heads * length]
  /// Places of q_places that are padding; their gradients are zero.
  torch::Tensor q_padding;
};

struct PackedLayout : torch::CustomClassHolder {
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t max_saved_elements = 0;
  std::vector<PackedBucket> buckets;
  /// For (row, head), flat: the place among all buckets' places, laid one after the other.
  torch::Tensor q_unpad;   ///< [N * num_heads]
  torch::Tensor kv_unpad;  ///< [N * num_kv_heads]

  /// `alone`: every sequence is a bucket of its own, in order.
  static c10::intrusive_ptr<PackedLayout> Create(const std::vector<int64_t>& lengths,
                                                 int64_t num_heads, int64_t num_kv_heads,
                                                 bool alone, torch::Device device);
};

/// Splits sequence numbers into groups of similar length. In a group at most a fifth of the places
/// (plus eight a sequence) is padding; longest first, ties in order. Pure; for tests as well.
std::vector<std::vector<int64_t>> GroupByLength(const std::vector<int64_t>& lengths);

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_KERNELS_PACKED_LAYOUT_H_
