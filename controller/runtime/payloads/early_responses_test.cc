#include "controller/runtime/payloads/early_responses.h"

#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TaskRef RefOf(uint64_t subject) {
  TaskRef ref;
  ref.kind = TaskKind::kGenerate;
  ref.subject = subject;
  return ref;
}

v1::TaskResult ResultOf(const std::string& text) {
  v1::TaskResult result;
  result.set_response_text(text);
  return result;
}

std::vector<std::string> TextsOf(const std::vector<EarlyResponses::Result>& results) {
  std::vector<std::string> texts;
  for (const auto& result : results) texts.push_back(result.result.response_text());
  return texts;
}

TEST(EarlyResponsesTest, PiecesOfAllTasksTogetherAreBounded) {
  EarlyResponses::Bounds bounds;
  bounds.tokens = 10;
  EarlyResponses early(bounds);
  PartialResponse* const first = early.RoomFor({"w", RefOf(1)}, 6);
  ASSERT_NE(first, nullptr);
  first->tokens.assign(6, 7);
  EXPECT_EQ(early.RoomFor({"w", RefOf(2)}, 5), nullptr);
  EXPECT_EQ(early.RoomFor({"other", RefOf(1)}, 5), nullptr);
  EXPECT_EQ(early.RoomFor({"w", RefOf(1)}, 5), nullptr) << "nor more of the same";
  PartialResponse* const second = early.RoomFor({"other", RefOf(1)}, 4);
  ASSERT_NE(second, nullptr);
  EXPECT_NE(second, first) << "another worker's try of it";
  EXPECT_THAT(early.TakePieces(), SizeIs(2)) << "what finds no room leaves nothing";
  EXPECT_NE(early.RoomFor({"w", RefOf(3)}, 10), nullptr);
}

TEST(EarlyResponsesTest, AResultThatFindsNoRoomHasFailed) {
  EarlyResponses::Bounds bounds;
  bounds.result_bytes = 250;
  EarlyResponses early(bounds);
  early.Add({"w", RefOf(1), ResultOf(std::string(100, 'a'))});
  early.Add({"w", RefOf(2), ResultOf(std::string(300, 'b'))});
  // The second result has no room. It is kept as a failure, so its task is tried again.
  const std::vector<EarlyResponses::Result> results = early.TakeResults();
  ASSERT_THAT(results, SizeIs(2));
  EXPECT_THAT(TextsOf(results), ElementsAre(std::string(100, 'a'), ""));
  EXPECT_TRUE(FromProto(results[0].result.status()).ok());
  EXPECT_EQ(results[1].ref, RefOf(2));
  EXPECT_EQ(FromProto(results[1].result.status()).code(), absl::StatusCode::kResourceExhausted);
}

TEST(EarlyResponsesTest, KeepsOnlyTheNewestCopyOfAResult) {
  EarlyResponses::Bounds bounds;
  bounds.result_bytes = 250;
  EarlyResponses early(bounds);
  for (int times = 0; times < 3; ++times) {
    early.Add({"w", RefOf(1), ResultOf(std::string(100, 'a'))});
    early.Add({"other", RefOf(1), ResultOf(std::string(100, 'b'))});
  }
  early.Add({"w", RefOf(1), ResultOf(std::string(90, 'c'))});
  EXPECT_THAT(TextsOf(early.TakeResults()),
              ElementsAre(std::string(90, 'c'), std::string(100, 'b')));
  EXPECT_TRUE(early.empty());
  EXPECT_THAT(early.TakeResults(), IsEmpty());
  early.Add({"w", RefOf(1), ResultOf(std::string(200, 'd'))});
  EXPECT_THAT(TextsOf(early.TakeResults()), ElementsAre(std::string(200, 'd')))
      << "what was taken left its room";
}

}  // namespace
}  // namespace baton::controller
