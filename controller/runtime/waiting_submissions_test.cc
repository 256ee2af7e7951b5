#include "controller/runtime/waiting_submissions.h"

#include <optional>
#include <vector>

#include "gtest/gtest.h"

namespace baton::controller {
namespace {

TEST(WaitingSubmissionsTest, AProjectWithTooManyGetsNoPlaceUntilOneIsAnswered) {
  WaitingSubmissions waiting(100'000);
  std::vector<std::shared_ptr<void>> places;
  while (true) {
    auto place = waiting.Enter("a", 10'000);
    if (!place.ok()) {
      EXPECT_EQ(place.status().code(), absl::StatusCode::kResourceExhausted);
      EXPECT_EQ(ErrorReason(place.status()), "SUBMISSIONS_WAITING");
      break;
    }
    places.push_back(*std::move(place));
    ASSERT_LT(places.size(), 11u);
  }
  EXPECT_EQ(places.size(), 7u);                  // 14,096 bytes each
  EXPECT_TRUE(waiting.Enter("b", 10'000).ok());  // another project
  places.pop_back();
  EXPECT_TRUE(waiting.Enter("a", 10'000).ok());
}

TEST(WaitingSubmissionsTest, OnlySoManyOfAProjectHoldCopies) {
  WaitingSubmissions waiting(100'000);
  std::vector<std::shared_ptr<void>> places;
  for (int i = 0; i < 8; ++i) places.push_back(waiting.EnterCopies("a").value());
  EXPECT_EQ(ErrorReason(waiting.EnterCopies("a").status()), "SUBMISSIONS_WAITING");
  EXPECT_TRUE(waiting.EnterCopies("b").ok());  // another project
  places.pop_back();
  EXPECT_TRUE(waiting.EnterCopies("a").ok());
}

TEST(WaitingSubmissionsTest, OneOfAnySizeIsTaken) {
  WaitingSubmissions waiting(1);
  const auto first = waiting.Enter("a", 1'000'000);
  EXPECT_TRUE(first.ok());
  EXPECT_FALSE(waiting.Enter("a", 0).ok());
}

TEST(WaitingSubmissionsTest, APlaceMayOutliveThem) {
  auto waiting = std::make_optional<WaitingSubmissions>(100'000);
  auto place = waiting->Enter("a", 10);
  waiting.reset();
  place->reset();
}

}  // namespace
}  // namespace baton::controller
