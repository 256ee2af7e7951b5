#include "relay/weights/box.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace baton::relay {

Box Box::Full(absl::Span<const int64_t> shape) {
  return {std::vector<int64_t>(shape.size(), 0), std::vector<int64_t>(shape.begin(), shape.end())};
}

std::vector<int64_t> Box::shape() const {
  std::vector<int64_t> out(rank());
  for (size_t d = 0; d < rank(); ++d) out[d] = end[d] - begin[d];
  return out;
}

int64_t Box::volume() const {
  // Emptiness first: an empty tensor's other dimensions may be anything.
  for (size_t d = 0; d < rank(); ++d) {
    if (end[d] <= begin[d]) return 0;
  }
  int64_t volume = 1;
  for (size_t d = 0; d < rank(); ++d) volume *= end[d] - begin[d];
  return volume;
}

bool Box::Contains(const Box& other) const {
  if (rank() != other.rank()) return false;
  for (size_t d = 0; d < rank(); ++d) {
    if (other.begin[d] < begin[d] || other.end[d] > end[d]) {
      return false;
    }
  }
  return true;
}

bool Box::FitsIn(absl::Span<const int64_t> shape) const {
  if (begin.size() != shape.size() || end.size() != shape.size()) return false;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (begin[d] < 0 || begin[d] > end[d] || end[d] > shape[d]) return false;
  }
  return true;
}

std::string Box::ToString() const {
  std::string out = "[";
  // Prints any box, for error messages: begin and end may differ in length.
  for (size_t d = 0; d < std::min(begin.size(), end.size()); ++d) {
    absl::StrAppend(&out, d > 0 ? ", " : "", begin[d], ":", end[d]);
  }
  return out + "]";
}

std::optional<Box> Intersect(const Box& a, const Box& b) {
  if (a.rank() != b.rank()) return std::nullopt;
  Box out = a;
  for (size_t d = 0; d < a.rank(); ++d) {
    out.begin[d] = std::max(a.begin[d], b.begin[d]);
    out.end[d] = std::min(a.end[d], b.end[d]);
    if (out.begin[d] >= out.end[d]) {
      return std::nullopt;
    }
  }
  return out;
}

std::vector<Box> Subtract(const Box& a, const Box& b) {
  const std::optional<Box> common = Intersect(a, b);
  if (!common) return a.volume() > 0 ? std::vector<Box>{a} : std::vector<Box>{};
  std::vector<Box> out;
  Box rest = a;  // The part of `a` that is left, cut down to `common`.
  for (size_t d = 0; d < a.rank(); ++d) {
    if (rest.begin[d] < common->begin[d]) {
      Box low = rest;
      low.end[d] = common->begin[d];
      out.push_back(low);
    }
    if (common->end[d] < rest.end[d]) {
      Box high = rest;
      high.begin[d] = common->end[d];
      out.push_back(high);
    }
    rest.begin[d] = common->begin[d];
    rest.end[d] = common->end[d];
  }
  return out;
}

std::vector<Box> Uncovered(absl::Span<const int64_t> shape, absl::Span<const Box> boxes) {
  std::vector<Box> missing;
  if (Box whole = Box::Full(shape); whole.volume() > 0) missing.push_back(std::move(whole));
  for (const Box& box : boxes) {
    std::vector<Box> rest;
    for (const Box& part : missing) {
      for (Box& left : Subtract(part, box)) rest.push_back(std::move(left));
    }
    missing = std::move(rest);
  }
  return missing;
}

}  // namespace baton::relay
