// Ports of a job: the executors of its work.
//
// JobRuntime never starts a thread. It hands work to executors. Production gives thread pools
// (controller/runtime/calls/asio_executors.h); a simulator gives queues in virtual time.
#ifndef BATON_CONTROLLER_PORTS_EXECUTOR_H_
#define BATON_CONTROLLER_PORTS_EXECUTOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"

namespace baton::controller {

/// Runs work later, never within the call that posts it. Thread-safe. When the controller stops,
/// work that has not begun is dropped.
class Executor {
 public:
  using Work = std::function<void()>;

  virtual ~Executor() = default;
  virtual void Post(Work work) = 0;
  virtual void PostAfter(absl::Duration delay, Work work) = 0;
};

/// The executors of one controller's jobs. Outlives the jobs. Thread-safe.
class Executors {
 public:
  virtual ~Executors() = default;

  /// An executor that runs one piece of work at a time, in the order of Post. Its work never
  /// blocks.
  virtual std::unique_ptr<Executor> NewStrand() = 0;
  /// The same for work that blocks on the disk.
  virtual std::unique_ptr<Executor> NewDiskStrand() = 0;
  /// Runs work that reads the store for watchers and lists. Nothing that a job writes waits for it.
  virtual void PostRead(Executor::Work work) = 0;
  /// Runs work of this job that reads as many bytes of data files as `bytes` returns. Large reads
  /// line up apart from small ones, and projects take turns. `bytes` may look at files; it is
  /// called on a thread that may block.
  virtual void PostDataRead(const std::string& job, std::function<uint64_t()> bytes,
                            Executor::Work work) = 0;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_PORTS_EXECUTOR_H_
