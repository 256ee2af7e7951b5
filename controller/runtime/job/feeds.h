// Feeds for the watchers of one job: its events and the lines of its log.
#ifndef BATON_CONTROLLER_RUNTIME_JOB_FEEDS_H_
#define BATON_CONTROLLER_RUNTIME_JOB_FEEDS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "controller/runtime/calls/calls.h"
#include "controller/runtime/job/job_scope.h"
#include "controller/runtime/job/job_threads.h"
#include "controller/runtime/job/turn_log.h"

namespace baton::controller {

/// A numbered stream with history: a subscriber gets the stored entries after a number, then new
/// entries. Lives on one strand; a sink gets entries in order, each at most once.
///
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

/// Decides which events become lines of a job's log: a fast job makes more steps than a person can
/// read.
///
/// Lets one step line per second through. Lines of other events always pass. The next line of
/// either kind names the steps before it that have no line, so the log keeps the order of the
/// events. Not thread-safe.
class StepLog {
 public:
  static constexpr absl::Duration kEvery = absl::Seconds(1);

  /// The line to write for step number `step`, which is done `now`; empty if the line is held back.
  std::optional<std::string> TakeStep(int64_t step, std::string line, absl::Time now) {
    if (now - written_ < kEvery) {
      if (first_held_ == 0) first_held_ = step;
      last_held_ = step;
      return std::nullopt;
    }
    written_ = now;
    return WithHeld(std::move(line));
  }

  /// The line to write for another event.
  std::string TakeOther(std::string line) { return WithHeld(std::move(line)); }

 private:
  std::string WithHeld(std::string line) {
    if (first_held_ == 0) return line;
    if (first_held_ == last_held_) {
      absl::StrAppend(&line, " (before it step ", last_held_, ", without a line of its own)");
    } else {
      absl::StrAppend(&line, " (before it steps ", first_held_, " to ", last_held_,
                      ", without lines of their own)");
    }
    first_held_ = last_held_ = 0;
    return line;
  }

  absl::Time written_ = absl::InfinitePast();  // time of the last step line
  int64_t first_held_ = 0, last_held_ = 0;     // steps since the last line; 0: none
};

/// On the job's strand, unless a method says otherwise. What the store keeps of both feeds is read
/// on the threads of readers.
class Feeds {
 public:
  /// `next_log_sequence`: of the first line that is written.
  Feeds(const JobScope* scope, JobThreads* threads, TurnLog* turns, int64_t next_log_sequence);

  // Any thread.
  std::unique_ptr<Subscription> Watch(int64_t after_revision, std::shared_ptr<EventSink> sink);
  std::unique_ptr<Subscription> ReadLogs(int64_t after, bool follow, std::shared_ptr<LogSink> sink);

  /// Publishes an event. The end of the job ends both feeds.
  void Emit(const v1::JobEvent& event);
  /// A line of a worker. While the store is too slow for them, lines are dropped and counted.
  void AddWorkerLine(const std::string& worker, const v1::WorkerLog& line);
  /// The job was quarantined: `last` is the event that ends both feeds.
  void EndWith(const v1::JobEvent& last);

 private:
  /// Reads the history after `after` in pieces, to its end.
  void CatchUpEvents(const Feed<v1::JobEvent>::Handle& subscriber, int64_t after);
  void CatchUpLogs(const Feed<v1::LogEntry>::Handle& subscriber, int64_t after);
  void LogEvent(const v1::JobEvent& event);
  void AddLine(const std::string& source, const std::string& level, const std::string& message,
               std::function<void()> after);

  const JobScope* const scope_;
  JobThreads* const threads_;
  TurnLog* const turns_;
  Feed<v1::JobEvent> events_;
  Feed<v1::LogEntry> logs_;
  StepLog step_log_;
  int64_t next_log_sequence_;
  bool logs_ended_;                                  // the log line of the job's end is committed
  size_t worker_lines_ = 0, worker_line_bytes_ = 0;  // not committed yet
  size_t dropped_worker_lines_ = 0;                  // since the last line that was kept
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_JOB_FEEDS_H_
