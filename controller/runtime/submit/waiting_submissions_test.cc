#include "controller/runtime/submit/waiting_submissions.h"

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

TEST(WaitingSubmissionsTest, RefusalsSayWhenToRetry) {
  WaitingSubmissions waiting(10'000);
  const auto place = waiting.Enter("a", 10'000);
  EXPECT_EQ(RetryDelay(waiting.Enter("a", 10'000).status()), absl::Seconds(1));
}

// 100,000 bytes of all projects, and a quarter more for the first submission of each.
TEST(WaitingSubmissionsTest, AllProjectsTogetherHaveABound) {
  WaitingSubmissions waiting(60'000, 100'000);
  std::vector<std::shared_ptr<void>> places;
  for (const char* project : {"a", "b"}) {
    for (int i = 0; i < 3; ++i) places.push_back(waiting.Enter(project, 12'000).value());
  }
  places.push_back(waiting.Enter("c", 10'000).value());  // 110,672 bytes with these 14,096
  EXPECT_EQ(ErrorReason(waiting.Enter("a", 0).status()), "SUBMISSIONS_WAITING");
  EXPECT_EQ(ErrorReason(waiting.Enter("c", 0).status()), "SUBMISSIONS_WAITING");
  places.push_back(waiting.Enter("d", 10'000).value());  // 124,768
  const auto refused = waiting.Enter("e", 0);
  EXPECT_EQ(ErrorReason(refused.status()), "SUBMISSIONS_WAITING");
  EXPECT_EQ(RetryDelay(refused.status()), absl::Seconds(1));
  places.clear();
  EXPECT_TRUE(waiting.Enter("e", 0).ok());
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

TEST(WaitingSubmissionsTest, AdmitsOneSubmissionOfAnySize) {
  WaitingSubmissions waiting(1);
  const auto first = waiting.Enter("a", 1'000'000);
  EXPECT_TRUE(first.ok());
  EXPECT_FALSE(waiting.Enter("a", 0).ok());
}

TEST(WaitingSubmissionsTest, APlaceMayOutliveTheQueue) {
  auto waiting = std::make_optional<WaitingSubmissions>(100'000);
  auto place = waiting->Enter("a", 10);
  waiting.reset();
  place->reset();
}

}  // namespace
}  // namespace baton::controller
