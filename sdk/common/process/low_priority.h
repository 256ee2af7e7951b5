// Threads for bulk work, which give way to threads that answer calls.
#ifndef BATON_SDK_COMMON_PROCESS_LOW_PRIORITY_H_
#define BATON_SDK_COMMON_PROCESS_LOW_PRIORITY_H_

#include <sys/resource.h>

#include <latch>
#include <memory>

namespace baton {

/// On a machine whose cores are all busy the calling thread gets about a tenth of what others get;
/// otherwise nothing changes. (On Linux a nice value is a thread's own.)
inline void LowerThreadPriority() { ::setpriority(PRIO_PROCESS, 0, 10); }

/// As above, for every thread of a pool that has exactly `threads` and nothing to do yet;
/// `post(work)` gives it work. Returns at once.
template <typename Post>
void LowerPoolPriority(int threads, Post post) {
  // A thread that waits for the others takes no second piece of work.
  const auto all = std::make_shared<std::latch>(threads);
  for (int i = 0; i < threads; ++i) {
    post([all] {
      LowerThreadPriority();
      all->arrive_and_wait();
    });
  }
}

}  // namespace baton

#endif  // BATON_SDK_COMMON_PROCESS_LOW_PRIORITY_H_
