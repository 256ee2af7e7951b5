// N processes of one command that answer JSON lines: a request with an "id" on a line of stdin, a
// reply with the same "id" on a line of stdout, in any order.
//
// Faults are kept to the request that caused them. A process that ends, writes something that is
// not a reply, or does not answer its oldest request in time is killed and started again. A
// time-out is the oldest request's error. Otherwise the requests it had are asked again one at a
// time, and the one that fails alone in a process that has answered nothing before gets the error.
// Texts of faults are for the command's author (docs/reward-command.md).
#ifndef BATON_WORKERS_REWARD_COMMAND_POOL_H_
#define BATON_WORKERS_REWARD_COMMAND_POOL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "workers/reward/command_sandbox.h"

namespace baton::reward {

struct CommandOptions {
  std::string command;      ///< For /bin/sh -c, e.g. "python3 reward.py".
  std::string working_dir;  ///< See CommandSandbox::Prepare.
  /// The sandbox of the processes. Not null.
  std::shared_ptr<const CommandSandbox> sandbox = CommandSandbox::None();
  int processes = 1;                           ///< 1 to 64.
  int window = 4;                              ///< Requests a process may have at once, 1 to 1024.
  absl::Duration timeout = absl::Seconds(30);  ///< For one reply, from when it is the oldest asked.
  absl::Duration startup;  ///< For a process to start, before `timeout` of its first reply begins.
  absl::Duration silence = absl::Seconds(4);  ///< Without any reply ever: `trouble_sink` hears it.
  size_t max_line_bytes = size_t{4} << 20;    ///< A longer reply is a fault.
  int max_faults = 20;       ///< Faults per process without a good reply that end the command.
  int max_first_faults = 5;  ///< As above, while there was never any reply.
  /// Called, if set, on an inner thread with each line of stderr. Must not block.
  std::function<void(absl::string_view line)> stderr_sink;
  /// Called, if set, on an inner thread when something is wrong with the command, with sentences
  /// for its author, and with "" once it has answered without a fault for `calm`. Must not block.
  std::function<void(absl::string_view text)> trouble_sink;
  absl::Duration calm = absl::Seconds(10);
};

class CommandPool {
 public:
  struct Exchange {
    uint64_t id = 0;   ///< From NewId; in `line` as "id".
    std::string line;  ///< Without a newline.
    /// Becomes true when the reply is not wanted any more; may be null. See NoticeCancelled.
    std::shared_ptr<const std::atomic<bool>> cancelled;
    /// The reply's line. Errors: ABORTED (the process ended), DEADLINE_EXCEEDED, DATA_LOSS (it
    /// wrote something else), all with what was written and the end of stderr; CANCELLED;
    /// UNAVAILABLE when the command was given up, now and for ever.
    absl::StatusOr<std::string> reply = absl::UnknownError("not asked");
  };

  /// Starts the processes. INVALID_ARGUMENT names the option that is wrong.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CommandPool>> Create(CommandOptions options);
  /// Closes stdin of each process, waits half a second, kills what is left. No Run may be going.
  ~CommandPool();

  /// Fills in every reply. Blocks; any number of threads.
  void Run(absl::Span<Exchange> batch);
  /// An exchange's `cancelled` has become true: its Run need not wait for it. (A process that has
  /// the request keeps it; its reply is dropped.) Thread-safe.
  void NoticeCancelled();
  uint64_t NewId();

 private:
  class Loop;
  explicit CommandPool(std::unique_ptr<Loop> loop);
  const std::unique_ptr<Loop> loop_;
};

}  // namespace baton::reward

#endif  // BATON_WORKERS_REWARD_COMMAND_POOL_H_
