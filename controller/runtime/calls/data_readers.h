// Threads that read data files, for submissions and for jobs that begin.
#ifndef BATON_CONTROLLER_RUNTIME_CALLS_DATA_READERS_H_
#define BATON_CONTROLLER_RUNTIME_CALLS_DATA_READERS_H_

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "boost/asio/post.hpp"
#include "boost/asio/thread_pool.hpp"
#include "controller/runtime/calls/fair_queue.h"
#include "controller/runtime/calls/gate.h"
#include "sdk/common/process/low_priority.h"

namespace baton::controller {

/// Total bytes of the paths that are files. Opens no file.
inline uint64_t BytesOf(const std::vector<std::string>& paths) {
  uint64_t bytes = 0;
  for (const std::string& path : paths) {
    std::error_code code;
    if (!std::filesystem::is_regular_file(path, code)) continue;
    const uintmax_t size = std::filesystem::file_size(path, code);
    if (!code) bytes += size;
  }
  return bytes;
}

/// Threads that run work of projects in turns. A project may use all but one thread at once, so its
/// slow work delays mainly itself. Of low priority. Thread-safe.
class FairThreads {
 public:
  /// `gate` outlives this.
  FairThreads(Gate* gate, int threads)
      : gate_(gate), pool_(static_cast<size_t>(threads)), queue_(std::max(1, threads - 1)) {
    LowerPoolPriority(threads, [this](auto work) { boost::asio::post(pool_, std::move(work)); });
  }

  void Post(const std::string& project, std::function<void()> work) {
    {
      absl::MutexLock lock(&mu_);
      if (joined_) return;
      queue_.Push(project, {project, std::move(work)});
    }
    gate_->Post(pool_.get_executor(), [this] { Work(); });
  }

  /// Waits for work that has begun and drops the rest. Call it after the gate is closed.
  void Join() {
    pool_.join();
    std::vector<Waiting> dropped;  // released after the lock is
    absl::MutexLock lock(&mu_);
    joined_ = true;
    dropped = queue_.Remove([](const Waiting&) { return true; });
  }

 private:
  struct Waiting {
    std::string project;
    std::function<void()> work;
  };

  // Runs waiting work until none may run. It must loop: for work that waited because its project
  // had reached its limit, no further call of this function is posted, so the call that ran the
  // project's earlier work runs it too.
  void Work() {
    while (!gate_->closed()) {
      std::optional<Waiting> next;
      {
        absl::MutexLock lock(&mu_);
        next = queue_.Take();
      }
      if (!next.has_value()) return;
      next->work();
      next->work = nullptr;
      absl::MutexLock lock(&mu_);
      queue_.End(next->project);
    }
  }

  Gate* const gate_;
  boost::asio::thread_pool pool_;
  absl::Mutex mu_;
  FairQueue<Waiting> queue_ ABSL_GUARDED_BY(mu_);
  bool joined_ ABSL_GUARDED_BY(mu_) = false;
};

/// Large reads wait for a thread of their own, so that small reads and the writes of jobs never
/// wait for them. In both queues projects take turns. Thread-safe.
class DataReaders {
 public:
  /// `gate` outlives this.
  DataReaders(Gate* gate, int threads, uint64_t large_bytes)
      : large_bytes_(large_bytes), small_(gate, threads), large_(gate, 1) {}

  /// Runs `work` of this project. `size` returns the number of bytes that `work` reads, and may
  /// look at files.
  void Post(const std::string& project, std::function<uint64_t()> size,
            std::function<void()> work) {
    small_.Post(project, [this, project, size = std::move(size), work = std::move(work)]() mutable {
      if (size() < large_bytes_) return work();
      large_.Post(project, std::move(work));
    });
  }

  /// Waits for work that has begun and drops the rest. Call it after the gate is closed.
  void Join() {
    small_.Join();
    large_.Join();
  }

 private:
  const uint64_t large_bytes_;
  FairThreads small_;
  FairThreads large_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_CALLS_DATA_READERS_H_
