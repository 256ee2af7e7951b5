#include "controller/runtime/rows/retention.h"

#include <cmath>
#include <set>

#include "gtest/gtest.h"

namespace baton::controller {
namespace {

TEST(RetentionTest, TheNewestStayAndOlderOnesGoAHundredthAtATime) {
  std::set<int64_t> there;
  for (int64_t number = 1; number <= 3000; ++number) {
    there.insert(number);
    const auto [first, last] = GoneWith(number, 500);
    for (int64_t old = first; old < last; ++old) EXPECT_EQ(there.erase(old), old > 0 ? 1u : 0u);
    EXPECT_GE(there.size(), static_cast<size_t>(std::min<int64_t>(number, 500)));
    EXPECT_LT(there.size(), 505u);
    EXPECT_EQ(*there.rbegin() - *there.begin(), static_cast<int64_t>(there.size()) - 1);
  }
}

// The rule as it is documented, applied to each number.
bool Stays(int64_t number, int64_t newest, int64_t kept) {
  int64_t every = 1;
  for (int64_t distance = kept; newest - number >= distance; distance *= 2) every *= 2;
  return number % every == 0;
}

TEST(RetentionTest, OlderEntriesAreThinnedByTheRule) {
  for (const int64_t kept : {1, 3, 10, 64}) {
    std::set<int64_t> there;
    for (int64_t newest = 0; newest <= 2000; ++newest) {
      there.insert(newest);
      for (const int64_t old : ThinnedWith(newest, kept)) there.erase(old);
      std::set<int64_t> expected;
      for (int64_t number = 0; number <= newest; ++number) {
        if (Stays(number, newest, kept)) expected.insert(number);
      }
      ASSERT_EQ(there, expected) << "kept " << kept << ", newest " << newest;
      const double levels =
          std::log2(std::max(1.0, static_cast<double>(newest) / static_cast<double>(kept)));
      EXPECT_LE(static_cast<double>(there.size()),
                static_cast<double>(kept) * (1 + (levels + 1) / 2) + levels + 2);
    }
  }
}

}  // namespace
}  // namespace baton::controller
