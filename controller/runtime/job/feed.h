// A numbered stream with history. A subscriber gets the stored entries after a number, then new
// entries. Lives on one strand; a sink gets entries in order, each at most once.
#ifndef BATON_CONTROLLER_RUNTIME_JOB_FEED_H_
#define BATON_CONTROLLER_RUNTIME_JOB_FEED_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace baton::controller {

/// `Entry` is a JobEvent or a LogEntry. `number(entry)` grows with every stored entry and is 0 for
/// an entry that is not stored. `deliver` and `end` call the sink.
template <typename Entry>
class Feed {
 public:
  struct Subscriber {
    std::function<int64_t(const Entry&)> number;
    std::function<bool(const Entry&)> deliver;  ///< False: too slow, cut off.
    std::function<void(absl::Status)> end;
    std::function<bool()> alive;  ///< False: the subscriber has left.
    int64_t last = 0;             ///< Number of the last entry delivered.
    bool follow = true;           ///< False: history only.
    bool catching_up = true;
    std::vector<Entry> held;  // arrived during the catch-up
  };
  using Handle = std::shared_ptr<Subscriber>;

  void Add(Handle subscriber) { subscribers_.push_back(std::move(subscriber)); }

  /// A piece of the history was read, and more follows. False: the subscriber has left, so stop
  /// reading.
  bool CatchUp(const Handle& subscriber, const std::vector<Entry>& part) {
    bool open = subscriber->alive();
    if (!open) Remove(subscriber, absl::CancelledError("gone"));
    for (size_t i = 0; open && i < part.size(); ++i) {
      open = Deliver(*subscriber, part[i]);
      if (!open) Remove(subscriber, SlowStatus());
    }
    return open;
  }

  /// The last piece of the history was read; `ended`: no new entries will follow.
  void CaughtUp(const Handle& subscriber, const std::vector<Entry>& history, bool ended) {
    bool open = true;
    for (const Entry& entry : history) open = open && Deliver(*subscriber, entry);
    for (const Entry& entry : std::exchange(subscriber->held, {})) {
      open = open && Deliver(*subscriber, entry);
    }
    subscriber->catching_up = false;
    if (!open) return Remove(subscriber, SlowStatus());
    if (ended || !subscriber->follow) Remove(subscriber, absl::OkStatus());
  }

  void Failed(const Handle& subscriber, absl::Status status) { Remove(subscriber, status); }

  void Publish(const Entry& entry) {
    std::vector<Handle> slow, gone;
    for (const Handle& subscriber : subscribers_) {
      if (!subscriber->alive()) {
        gone.push_back(subscriber);
      } else if (subscriber->catching_up) {
        subscriber->held.push_back(entry);
      } else if (!Deliver(*subscriber, entry)) {
        slow.push_back(subscriber);
      }
    }
    for (const Handle& subscriber : slow) Remove(subscriber, SlowStatus());
    for (const Handle& subscriber : gone) Remove(subscriber, absl::CancelledError("gone"));
  }

  /// No new entries will follow: ends every subscription that is not catching up.
  void End(absl::Status status) {
    std::vector<Handle> done;
    for (const Handle& subscriber : subscribers_) {
      if (!subscriber->catching_up) done.push_back(subscriber);
    }
    for (const Handle& subscriber : done) Remove(subscriber, status);
  }

  size_t size() const { return subscribers_.size(); }

 private:
  static absl::Status SlowStatus() {
    return absl::ResourceExhaustedError(
        "the watcher is too slow; resume from the last revision it got");
  }
  static bool Deliver(Subscriber& subscriber, const Entry& entry) {
    const int64_t number = subscriber.number(entry);
    if (number != 0) {
      if (number <= subscriber.last) return true;
      subscriber.last = number;
    }
    return subscriber.deliver(entry);
  }
  void Remove(const Handle& subscriber, const absl::Status& status) {
    for (size_t i = 0; i < subscribers_.size(); ++i) {
      if (subscribers_[i] != subscriber) continue;
      subscribers_.erase(subscribers_.begin() + static_cast<std::ptrdiff_t>(i));
      subscriber->end(status);
      return;
    }
  }

  std::vector<Handle> subscribers_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_JOB_FEED_H_
