#include "controller/algorithms/sample.h"

#include <map>

namespace baton::algorithms {

size_t CountUnmasked(const Sample& sample) {
  if (sample.mask.empty()) return sample.length;
  size_t count = 0;
  for (const uint8_t m : sample.mask) count += m != 0 ? 1 : 0;
  return count;
}

std::vector<size_t> Offsets(absl::Span<const Sample> samples) {
  std::vector<size_t> offsets = {0};
  offsets.reserve(samples.size() + 1);
  for (const Sample& s : samples) offsets.push_back(offsets.back() + s.length);
  return offsets;
}

std::vector<std::vector<size_t>> Groups(absl::Span<const Sample> samples) {
  std::vector<std::vector<size_t>> groups;
  std::map<uint64_t, size_t> places;
  for (size_t i = 0; i < samples.size(); ++i) {
    const auto [place, added] = places.try_emplace(samples[i].group, groups.size());
    if (added) groups.emplace_back();
    groups[place->second].push_back(i);
  }
  return groups;
}

}  // namespace baton::algorithms
