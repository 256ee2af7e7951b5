// The gate through which work is posted to the executors until the controller stops.
#ifndef BATON_CONTROLLER_RUNTIME_CALLS_GATE_H_
#define BATON_CONTROLLER_RUNTIME_CALLS_GATE_H_

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "boost/asio/post.hpp"

namespace baton::controller {

/// Work that is posted after Close is dropped. So a pool that is joined after Close is empty when
/// it is destroyed. This matters because work left in a pool would hold jobs, and jobs hold strands
/// of the pools. Thread-safe.
class Gate {
 public:
  template <typename Executor, typename Work>
  // `work` is destroyed after the lock is released
  void Post(const Executor& executor, Work work) {
    absl::ReaderMutexLock lock(&mu_);
    if (!closed_) boost::asio::post(executor, std::move(work));
  }

  void Close() {
    absl::MutexLock lock(&mu_);
    closed_ = true;
  }
  bool closed() const {
    absl::ReaderMutexLock lock(&mu_);
    return closed_;
  }

 private:
  mutable absl::Mutex mu_;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_CALLS_GATE_H_
