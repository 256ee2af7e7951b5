#include "workers/engine/kernels/packed_layout.h"

#include <algorithm>
#include <numeric>

namespace baton::engine {
namespace {

torch::Tensor ToDevice(const std::vector<int64_t>& values, torch::Device device) {
  return torch::tensor(values, torch::kInt64).to(device);
}

struct Builder {
  const std::vector<int64_t>& lengths;
  std::vector<int64_t> first_row;
  torch::Device device;

  /// (sequence, head, token) -> row * heads + head; padding -> head of row 0. `padding` receives
  /// the flat places that are padding.
  torch::Tensor Places(const std::vector<int64_t>& group, int64_t length, int64_t heads,
                       std::vector<int64_t>* padding) const {
    std::vector<int64_t> places;
    places.reserve(group.size() * static_cast<size_t>(heads * length));
    for (int64_t sequence : group) {
      for (int64_t head = 0; head < heads; ++head) {
        for (int64_t token = 0; token < length; ++token) {
          const bool real = token < lengths[sequence];
          if (!real && padding != nullptr) {
            padding->push_back(static_cast<int64_t>(places.size()));
          }
          places.push_back(real ? (first_row[sequence] + token) * heads + head : head);
        }
      }
    }
    return ToDevice(places, device);
  }
};

/// The inverse of the buckets' places: for each (row, head) where it stands among them.
torch::Tensor Unpad(const std::vector<std::vector<int64_t>>& groups,
                    const std::vector<int64_t>& lengths, const std::vector<int64_t>& first_row,
                    int64_t num_rows, int64_t heads, torch::Device device) {
  std::vector<int64_t> unpad(static_cast<size_t>(num_rows * heads));
  int64_t base = 0;
  for (const std::vector<int64_t>& group : groups) {
    const int64_t length = lengths[group[0]];
    for (int64_t sequence : group) {
      for (int64_t head = 0; head < heads; ++head, base += length) {
        for (int64_t token = 0; token < lengths[sequence]; ++token) {
          unpad[(first_row[sequence] + token) * heads + head] = base + token;
        }
      }
    }
  }
  return ToDevice(unpad, device);
}

}  // namespace

std::vector<std::vector<int64_t>> GroupByLength(const std::vector<int64_t>& lengths) {
  std::vector<int64_t> order(lengths.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return lengths[a] > lengths[b]; });
  std::vector<std::vector<int64_t>> groups;
  int64_t longest = 0;
  for (int64_t sequence : order) {
    const int64_t length = lengths[sequence];
    if (groups.empty() || (length + 8) * 5 < longest * 4) {
      groups.emplace_back();
      longest = length;
    }
    groups.back().push_back(sequence);
  }
  return groups;
}

c10::intrusive_ptr<PackedLayout> PackedLayout::Create(const std::vector<int64_t>& lengths,
                                                      int64_t num_heads, int64_t num_kv_heads,
                                                      bool alone, torch::Device device) {
  std::vector<std::vector<int64_t>> groups;
  if (alone) {
    for (size_t i = 0; i < lengths.size(); ++i) groups.push_back({static_cast<int64_t>(i)});
  } else {
    groups = GroupByLength(lengths);
  }
  Builder builder{lengths, std::vector<int64_t>(lengths.size()), device};
  int64_t num_rows = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    builder.first_row[i] = num_rows;
    num_rows += lengths[i];
  }
  auto layout = c10::make_intrusive<PackedLayout>();
  layout->num_heads = num_heads;
  layout->num_kv_heads = num_kv_heads;
  for (const std::vector<int64_t>& group : groups) {
    const int64_t length = lengths[group[0]];
    std::vector<int64_t> padding;
    PackedBucket bucket;
    bucket.batch = static_cast<int64_t>(group.size());
    bucket.length = length;
    bucket.q_places = builder.Places(group, length, num_heads, &padding);
    bucket.kv_places = builder.Places(group, length, num_kv_heads, nullptr);
    bucket.q_padding = ToDevice(padding, device);
    layout->buckets.push_back(std::move(bucket));
  }
  layout->q_unpad = Unpad(groups, lengths, builder.first_row, num_rows, num_heads, device);
  layout->kv_unpad = num_heads == num_kv_heads ? layout->q_unpad
                                               : Unpad(groups, lengths, builder.first_row, num_rows,
                                                       num_kv_heads, device);
  return layout;
}

}  // namespace baton::engine
