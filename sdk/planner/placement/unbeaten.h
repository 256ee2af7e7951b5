// Selection of the alternatives that no other beats.
#ifndef BATON_SDK_PLANNER_PLACEMENT_UNBEATEN_H_
#define BATON_SDK_PLANNER_PLACEMENT_UNBEATEN_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace baton::placement {

/// The work that a search has done, and the most it may do: 1 for a comparison of two alternatives,
/// kMade for making one, which takes about a hundred times as long.
class WorkBudget {
 public:
  static constexpr int64_t kMade = 100;
  explicit WorkBudget(int64_t most) : most_(most) {}  ///< 0: any number.
  /// False: the work is beyond the limit. Results from then on mean nothing.
  bool Spend(int64_t work) {
    spent_ += work;
    return !over();
  }
  bool over() const { return most_ > 0 && spent_ > most_; }
  int64_t spent() const { return spent_; }

 private:
  const int64_t most_;
  int64_t spent_ = 0;
};

/// Keeps of `items` those that no other equals or beats: an item goes when another is lower or
/// equal in all of `keys(item)`, a std::array of numbers. Among equal items the first stays. The
/// remaining items are in ascending order of keys. Each comparison is taken from `budget`.
template <typename T, typename Keys>
void KeepUnbeaten(std::vector<T>* items, const Keys& keys, WorkBudget* budget) {
  std::stable_sort(items->begin(), items->end(),
                   [&](const T& a, const T& b) { return keys(a) < keys(b); });
  std::vector<T> kept;
  for (T& item : *items) {
    if (!budget->Spend(static_cast<int64_t>(kept.size()) + 1)) break;
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

#endif  // BATON_SDK_PLANNER_PLACEMENT_UNBEATEN_H_
