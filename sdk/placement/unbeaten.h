// Of many alternatives, those worth keeping.
#ifndef BATON_SDK_PLACEMENT_UNBEATEN_H_
#define BATON_SDK_PLACEMENT_UNBEATEN_H_

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace baton::placement {

/// Keeps of `items` those that no other equals or beats: an item goes when another is lower or
/// equal in all of `keys(item)`, a std::array of numbers. Of equal ones the first stays. What stays
/// is in ascending order of keys.
template <typename T, typename Keys>
void KeepUnbeaten(std::vector<T>* items, const Keys& keys) {
  std::stable_sort(items->begin(), items->end(),
                   [&](const T& a, const T& b) { return keys(a) < keys(b); });
  std::vector<T> kept;
  for (T& item : *items) {
    const auto mine = keys(item);
    const bool beaten = std::any_of(kept.begin(), kept.end(), [&](const T& other) {
      const auto theirs = keys(other);
      for (size_t i = 0; i < mine.size(); ++i) {
        if (theirs[i] > mine[i]) return false;
      }
      return true;
    });
    if (!beaten) kept.push_back(std::move(item));
  }
  *items = std::move(kept);
}

}  // namespace baton::placement

#endif  // BATON_SDK_PLACEMENT_UNBEATEN_H_
