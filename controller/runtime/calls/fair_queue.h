// A queue in which projects take turns.
#ifndef BATON_CONTROLLER_RUNTIME_CALLS_FAIR_QUEUE_H_
#define BATON_CONTROLLER_RUNTIME_CALLS_FAIR_QUEUE_H_

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace baton::controller {

/// A queue that is first come first served within a project; projects take turns. A project may
/// have at most `max_taken` items taken at once, so that other projects find room. Not thread-safe.
template <typename T>
class FairQueue {
 public:
  explicit FairQueue(int max_taken) : max_taken_(max_taken) {}

  void Push(const std::string& project, T item) {
    lines_[project].waiting.push_back(std::move(item));
    ++waiting_;
  }

  /// The next item. Empty: nothing waits, or only items of projects that have reached `max_taken`.
  /// The caller must call End for each item that it takes.
  std::optional<T> Take() {
    auto it = lines_.upper_bound(last_);
    for (size_t looked = 0; looked < lines_.size(); ++looked, ++it) {
      if (it == lines_.end()) it = lines_.begin();
      Line& line = it->second;
      if (line.waiting.empty() || line.taken >= max_taken_) continue;
      std::optional<T> out(std::move(line.waiting.front()));
      line.waiting.pop_front();
      --waiting_;
      ++line.taken;
      last_ = it->first;
      return out;
    }
    return std::nullopt;
  }
  /// An item that was taken for this project is done.
  void End(const std::string& project) {
    const auto it = lines_.find(project);
    --it->second.taken;
    if (it->second.taken == 0 && it->second.waiting.empty()) lines_.erase(it);
  }

  /// Removes and returns the waiting items for which `leaves` is true.
  template <typename Leaves>
  std::vector<T> Remove(Leaves leaves) {
    std::vector<T> out;
    for (auto it = lines_.begin(); it != lines_.end();) {
      std::deque<T> stay;
      for (T& item : it->second.waiting) {
        if (leaves(item)) {
          out.push_back(std::move(item));
        } else {
          stay.push_back(std::move(item));
        }
      }
      it->second.waiting = std::move(stay);
      it = it->second.taken == 0 && it->second.waiting.empty() ? lines_.erase(it) : ++it;
    }
    waiting_ -= out.size();
    return out;
  }

  size_t waiting() const { return waiting_; }

 private:
  struct Line {
    std::deque<T> waiting;
    int taken = 0;
  };

  const int max_taken_;
  std::map<std::string, Line> lines_;  // by project
  std::string last_;                   // the project of the last item that Take returned
  size_t waiting_ = 0;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_CALLS_FAIR_QUEUE_H_
