#include "sdk/common/process/low_priority.h"

#include <atomic>
#include <utility>

#include "boost/asio/post.hpp"
#include "boost/asio/thread_pool.hpp"
#include "gtest/gtest.h"

namespace baton {
namespace {

// Again and again: a thread may still wait for the others when the call has long returned.
TEST(LowPriorityTest, EveryThreadOfAPoolAndNoOther) {
  const int before = ::getpriority(PRIO_PROCESS, 0);
  for (int round = 0; round < 300; ++round) {
    boost::asio::thread_pool pool(2);
    LowerPoolPriority(2, [&](auto work) { boost::asio::post(pool, std::move(work)); });
    std::atomic<int> low{0};
    for (int i = 0; i < 10; ++i) {
      boost::asio::post(pool, [&] { low += ::getpriority(PRIO_PROCESS, 0) == 10 ? 1 : 0; });
    }
    pool.join();
    ASSERT_EQ(low, 10) << "round " << round;
  }
  EXPECT_EQ(::getpriority(PRIO_PROCESS, 0), before);
}

}  // namespace
}  // namespace baton
