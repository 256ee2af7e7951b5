// The threads of one role.
#ifndef BATON_SDK_WORKER_ROLE_RUNNER_H_
#define BATON_SDK_WORKER_ROLE_RUNNER_H_

#include <deque>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace baton {

/// Runs functions in the order of Post on `threads` threads. An exclusive function runs alone: all
/// earlier functions have returned, and no later one has begun. Thread-safe; functions may Post.
class RoleRunner {
 public:
  explicit RoleRunner(int threads);
  /// Calls Stop.
  ~RoleRunner();
  RoleRunner(const RoleRunner&) = delete;
  RoleRunner& operator=(const RoleRunner&) = delete;

  void Post(std::function<void()> function, bool exclusive);
  /// Runs the posted functions, then ends the threads. Later posts run on the caller's thread.
  void Stop();

 private:
  void Work();
  bool CanStart() const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  bool CanStartOrEnd() const ABSL_SHARED_LOCKS_REQUIRED(mu_);

  absl::Mutex mu_;
  std::deque<std::pair<std::function<void()>, bool>> queue_ ABSL_GUARDED_BY(mu_);
  int active_ ABSL_GUARDED_BY(mu_) = 0;
  bool exclusive_active_ ABSL_GUARDED_BY(mu_) = false;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace baton

#endif  // BATON_SDK_WORKER_ROLE_RUNNER_H_
