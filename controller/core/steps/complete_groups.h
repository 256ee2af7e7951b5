// The complete prompt groups that wait for a batch, in the order in which they were complete.
#ifndef BATON_CONTROLLER_CORE_STEPS_COMPLETE_GROUPS_H_
#define BATON_CONTROLLER_CORE_STEPS_COMPLETE_GROUPS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace baton::controller {

/// Groups are named by their draws. Every call takes O(log n).
class CompleteGroups {
 public:
  void Add(uint64_t draw) { Put(draw, last_++); }
  /// Before all others, in this order: they were complete before.
  void AddFirst(const std::vector<uint64_t>& draws) {
    for (auto draw = draws.rbegin(); draw != draws.rend(); ++draw) Put(*draw, --first_);
  }
  /// Nothing, if it is not among them.
  void Remove(uint64_t draw) {
    const auto found = places_.find(draw);
    if (found == places_.end()) return;
    order_.erase(found->second);
    places_.erase(found);
  }
  void Clear() {
    order_.clear();
    places_.clear();
  }

  size_t size() const { return places_.size(); }
  bool Has(uint64_t draw) const { return places_.count(draw) > 0; }
  /// The first `count` of them, or all.
  std::vector<uint64_t> First(size_t count) const {
    std::vector<uint64_t> first;
    for (auto it = order_.begin(); it != order_.end() && first.size() < count; ++it) {
      first.push_back(it->second);
    }
    return first;
  }

 private:
  void Put(uint64_t draw, int64_t place) {
    Remove(draw);
    order_[place] = draw;
    places_[draw] = place;
  }

  int64_t first_ = 0, last_ = 0;
  std::map<int64_t, uint64_t> order_;   // place -> draw
  std::map<uint64_t, int64_t> places_;  // draw -> place
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_STEPS_COMPLETE_GROUPS_H_
