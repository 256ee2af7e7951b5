#include "sdk/common/base/clock.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "gtest/gtest.h"

namespace baton {
namespace {

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

constexpr int kCannot = 77;

// Runs `check` where this machine slept for `slept` since it was started: in a time namespace.
int WhereTheMachineSlept(std::chrono::seconds slept, bool (*check)()) {
  const pid_t outer = ::fork();
  if (outer == 0) {
    if (::unshare(CLONE_NEWTIME) != 0) ::_exit(kCannot);
    FILE* offsets = std::fopen("/proc/self/timens_offsets", "w");
    if (offsets == nullptr) ::_exit(kCannot);
    std::fprintf(offsets, "boottime %lld 0\n", static_cast<long long>(slept.count()));
    if (std::fclose(offsets) != 0) ::_exit(kCannot);
    const pid_t inner = ::fork();  // children alone are in the namespace
    if (inner == 0) ::_exit(check() ? 0 : 1);
    int status = 0;
    ::waitpid(inner, &status, 0);
    ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
  }
  int status = 0;
  ::waitpid(outer, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

TEST(BootClockTest, CountsTheTimeThatTheMachineSlept) {
  const int result = WhereTheMachineSlept(std::chrono::hours(1), [] {
    const auto awake = std::chrono::steady_clock::now().time_since_epoch();
    const auto all = BootClock::now().time_since_epoch();
    return all - awake >= std::chrono::minutes(59);
  });
  if (result == kCannot) GTEST_SKIP() << "no time namespace may be made here";
  EXPECT_EQ(result, 0);
}

TEST(BootClockTest, NeverJumpsBack) {
  BootClock::time_point last = BootClock::now();
  for (int i = 0; i < 1000; ++i) {
    const BootClock::time_point now = BootClock::now();
    EXPECT_GE(now, last);
    last = now;
  }
  const RealClock clock;
  const absl::Time first = clock.Now();
  EXPECT_LT(absl::AbsDuration(first - absl::Now()), absl::Seconds(5));
  EXPECT_GE(clock.Now(), first);
}

}  // namespace
}  // namespace baton
