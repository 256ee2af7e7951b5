#include "workers/engine/generation/stop_checker.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace baton::engine {
namespace {

// Token i is the i-th of these pieces; 3 is a special token without text.
const std::vector<std::string>& Pieces() {
  static const auto* pieces =
      new std::vector<std::string>{"a", "b", "ab", "", "\n\nQ", "\n", "\xe2\x82", "\xac", "aab"};
  return *pieces;
}

DecodeFunction Decode() {
  return [](absl::Span<const int32_t> tokens) {
    std::string text;
    for (int32_t token : tokens) text += Pieces()[token];
    return text;
  };
}

// Feeds tokens until one stops; returns how many were fed, 0 if none stopped.
int StopsAfter(const SamplingParams& params, const std::vector<int32_t>& tokens) {
  const DecodeFunction decode = Decode();
  StopChecker checker(&params, &decode);
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (checker.Append(tokens[i])) return static_cast<int>(i) + 1;
  }
  EXPECT_EQ(checker.length(), static_cast<int64_t>(tokens.size()));
  return 0;
}

TEST(StopCheckerTest, StopTokens) {
  SamplingParams params;
  EXPECT_EQ(StopsAfter(params, {0, 1, 2}), 0);
  params.stop_token_ids = {5, 1};
  EXPECT_EQ(StopsAfter(params, {0, 1, 2}), 2);
  EXPECT_EQ(StopsAfter(params, {5}), 1);
}

TEST(StopCheckerTest, StopStringsWithinAndAcrossTokens) {
  SamplingParams params;
  params.stop_strings = {"aab"};
  EXPECT_EQ(StopsAfter(params, {1, 8, 0}), 2) << "within one token";
  EXPECT_EQ(StopsAfter(params, {1, 0, 0, 1}), 4) << "over three tokens";
  EXPECT_EQ(StopsAfter(params, {0, 2}), 2) << "over two tokens";
  EXPECT_EQ(StopsAfter(params, {0, 3, 0, 3, 3, 1}), 6) << "with tokens without text between";
  EXPECT_EQ(StopsAfter(params, {0, 0, 0, 0, 1}), 5) << "after a false start";
  EXPECT_EQ(StopsAfter(params, {0, 1, 0, 1, 1}), 0);
}

TEST(StopCheckerTest, StopStringInTheMiddleOfAToken) {
  SamplingParams params;
  params.stop_strings = {"b\n"};
  EXPECT_EQ(StopsAfter(params, {1, 4}), 2) << "the token that completes it belongs to the response";
}

TEST(StopCheckerTest, CharactersSplitOverTokens) {
  SamplingParams params;
  params.stop_strings = {"\xe2\x82\xac"};
  EXPECT_EQ(StopsAfter(params, {0, 6, 7}), 3);
  EXPECT_EQ(StopsAfter(params, {6, 0, 7}), 0);
}

TEST(StopCheckerTest, SeveralStopStringsOfDifferentLengths) {
  SamplingParams params;
  params.stop_strings = {"\n\nQ", "ba", "a\nb"};
  EXPECT_EQ(StopsAfter(params, {5, 5, 0, 5, 1}), 5);
  EXPECT_EQ(StopsAfter(params, {1, 1, 0}), 3);
  EXPECT_EQ(StopsAfter(params, {5, 4}), 2);
}

TEST(StopCheckerTest, NeverStopsBeforeTheMinimum) {
  SamplingParams params;
  params.stop_strings = {"ab", "a long one that keeps the tail"};
  params.stop_token_ids = {5};
  params.max_new_tokens = 10;
  params.min_new_tokens = 3;
  EXPECT_EQ(StopsAfter(params, {0, 1, 0, 1}), 4) << "the first ab is past and does not count";
  EXPECT_EQ(StopsAfter(params, {1, 0, 1}), 3) << "text may stop at exactly the minimum";
  EXPECT_EQ(StopsAfter(params, {2, 1, 1, 1, 1}), 0);
  EXPECT_EQ(StopsAfter(params, {5, 5, 5, 5}), 4) << "a stop token needs the minimum before it";
}

TEST(StopCheckerTest, DoesNotDecodeWithoutStopStrings) {
  SamplingParams params;
  params.stop_token_ids = {7};
  const DecodeFunction none;
  StopChecker checker(&params, &none);
  EXPECT_FALSE(checker.Append(0));
  EXPECT_TRUE(checker.Append(7));
}

}  // namespace
}  // namespace baton::engine
