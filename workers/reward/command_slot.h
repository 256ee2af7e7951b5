// One place of a CommandPool: a process that may be running, and what was asked of it. Internal.
#ifndef BATON_WORKERS_REWARD_COMMAND_SLOT_H_
#define BATON_WORKERS_REWARD_COMMAND_SLOT_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/time/time.h"
#include "workers/reward/child_process.h"
#include "workers/reward/command_pool.h"

namespace baton::reward {

/// A request on its way.
struct CommandRequest {
  uint64_t id;
  CommandPool::Exchange* exchange;  // on the stack of the thread that waits in Run; null: settled
  absl::BlockingCounter* done;
  int second_chances = 0;  // faults while alone that a request before it may have caused
};

/// Used by the pool's I/O thread alone.
class CommandSlot {
 public:
  enum class ReadState { kOpen, kEnded, kTooLong };

  // State of the pool, kept here.
  std::deque<CommandRequest> outstanding;  // oldest first
  bool alone = false;                      // takes no second request until empty
  bool has_answered = false;               // since it was started
  std::deque<uint64_t> answered;           // the last ids that it answered
  bool stderr_ended = false;
  int faults = 0;                                    // since its last good reply
  absl::Time oldest_since = absl::InfiniteFuture();  // when the oldest request became the oldest
  absl::Time start_after = absl::InfinitePast();     // back-off
  absl::Time started;

  bool running() const { return process_ != nullptr; }
  ChildProcess* process() { return process_.get(); }
  bool wants_write() const { return running() && process_->stdin_fd() >= 0 && !to_write_.empty(); }

  [[nodiscard]] absl::Status Start(const CommandOptions& options);
  /// Queues a line and writes what the pipe takes.
  void Send(absl::string_view line);
  void Write();
  /// Reads what is there; appends complete lines to `lines`.
  [[nodiscard]] ReadState ReadReplies(size_t max_line_bytes, std::vector<std::string>* lines);
  /// Passes whole lines on to `sink` and keeps the end for StderrTail. False: the stream ended.
  bool ReadStderr(const std::function<void(absl::string_view)>& sink);
  /// The way a process ended, and its last words on stderr.
  struct End {
    std::string how;  ///< "exited with code 3".
    std::string
        stderr_tail;  ///< The end of its stderr, valid UTF-8, without white space around it.
  };
  /// Kills the process and reads the rest of stderr.
  [[nodiscard]] End Stop(absl::Duration grace, const std::function<void(absl::string_view)>& sink);
  /// The beginning of a line that has no end yet, for an error's text.
  const std::string& partial_line() const { return partial_; }

 private:
  std::unique_ptr<ChildProcess> process_;
  std::string to_write_;
  std::string partial_;         // of stdout
  std::string stderr_partial_;  // of stderr, for the sink
  std::string stderr_tail_;
};

}  // namespace baton::reward

#endif  // BATON_WORKERS_REWARD_COMMAND_SLOT_H_
