// Axis-aligned boxes of tensor elements: the part of a tensor that a rank holds.
#ifndef BATON_RELAY_WEIGHTS_BOX_H_
#define BATON_RELAY_WEIGHTS_BOX_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace baton::relay {

/// The elements i with begin[d] <= i[d] < end[d] in every dimension d. `begin` and `end` have the
/// tensor's rank; rank 0 (a scalar) is one element. A plain value.
struct Box {
  std::vector<int64_t> begin;
  std::vector<int64_t> end;

  /// All of a tensor of this shape.
  static Box Full(absl::Span<const int64_t> shape);

  size_t rank() const { return begin.size(); }
  std::vector<int64_t> shape() const;
  /// Number of elements; 0 for an empty box. Shapes that a tensor can have do not overflow.
  int64_t volume() const;
  bool Contains(const Box& other) const;
  /// Within [0, shape), begin <= end, rank equal to shape's.
  bool FitsIn(absl::Span<const int64_t> shape) const;
  /// "[0:4, 2:8]"
  std::string ToString() const;

  friend bool operator==(const Box& a, const Box& b) {
    return a.begin == b.begin && a.end == b.end;
  }
};

/// The common elements; absent if there are none or the ranks differ.
std::optional<Box> Intersect(const Box& a, const Box& b);

/// The elements of `a` outside `b`, as at most 2 * rank disjoint boxes.
std::vector<Box> Subtract(const Box& a, const Box& b);

/// The elements of a tensor of this shape that are in none of `boxes`, as disjoint boxes.
std::vector<Box> Uncovered(absl::Span<const int64_t> shape, absl::Span<const Box> boxes);

}  // namespace baton::relay

#endif  // BATON_RELAY_WEIGHTS_BOX_H_
