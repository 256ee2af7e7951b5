#include "controller/core/job/task.h"

#include "gtest/gtest.h"

namespace baton::controller {
namespace {

TEST(TaskTest, EncodesAndDecodesATaskToken) {
  TaskToken token;
  token.job = "projects/default/jobs/x";
  token.ref.kind = TaskKind::kScore;
  token.ref.subject = (uint64_t{2} << 56) | 12345;
  token.ref.target = 3;
  token.ref.attempt = FirstAttempt(7) + 2;
  token.ref.step = 41;
  token.ref.incarnation = 9;
  const auto back = DecodeToken(EncodeToken(token));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->job, token.job);
  EXPECT_TRUE(back->ref == token.ref);
  token.ref.step = 0;
  token.ref.incarnation = 0;
  token.ref.trajectory_uid = (uint64_t{1} << 40) | 77;
  token.ref.version = (uint64_t{1} << 50) | 5;
  token.ref.prompt = (uint64_t{1} << 33) | 6;
  const auto known = DecodeToken(EncodeToken(token));
  ASSERT_TRUE(known.has_value());
  EXPECT_EQ(known->job, token.job);
  EXPECT_TRUE(known->ref == token.ref);
}

// The layout, by hand: (kGenerate, 12345, epoch 7 try 2, trajectory uid 41, version 5, prompt 6) of
// job "j", then (kScore, 12345, node 3, step 41, incarnation 9) of it.
TEST(TaskTest, ATokenByHand) {
  std::string bytes = "B1";
  bytes += '\x04';
  bytes += std::string("\x39\x30\0\0\0\0\0\0", 8);
  bytes += std::string("\0\0\0\0", 4);
  bytes += std::string("\x02\0\0\0\x07\0\0\0", 8);
  bytes += std::string(16, '\0');
  bytes += std::string("\x29\0\0\0\0\0\0\0", 8);
  bytes += std::string("\x05\0\0\0\0\0\0\0", 8);
  bytes += std::string("\x06\0\0\0\0\0\0\0", 8);
  const auto token = DecodeToken(bytes + "j");
  ASSERT_TRUE(token.has_value());
  EXPECT_EQ(token->job, "j");
  EXPECT_EQ(token->ref.kind, TaskKind::kGenerate);
  EXPECT_EQ(token->ref.subject, 12345u);
  EXPECT_EQ(token->ref.attempt, FirstAttempt(7) + 2);
  EXPECT_EQ(token->ref.trajectory_uid, 41u);
  EXPECT_EQ(token->ref.version, 5u);
  EXPECT_EQ(token->ref.prompt, 6u);
  EXPECT_EQ(EncodeToken(*token), bytes + "j");

  TaskToken score;
  score.job = "j";
  score.ref.kind = TaskKind::kScore;
  score.ref.subject = 12345;
  score.ref.target = 3;
  score.ref.step = 41;
  score.ref.incarnation = 9;
  bytes = "B1";
  bytes += '\x05';
  bytes += std::string("\x39\x30\0\0\0\0\0\0", 8);
  bytes += std::string("\x03\0\0\0", 4);
  bytes += std::string(8, '\0');
  bytes += std::string("\x29\0\0\0\0\0\0\0", 8);
  bytes += std::string("\x09\0\0\0\0\0\0\0", 8);
  bytes += std::string(24, '\0');
  EXPECT_EQ(EncodeToken(score), bytes + "j");
}

TEST(TaskTest, AttemptsOfAnEpochNeverReachTheNextEpoch) {
  const uint64_t first = FirstAttempt(7), next = FirstAttempt(8);
  EXPECT_EQ(NextAttempt(first, first), first + 1);
  EXPECT_EQ(TryOf(first + 255), 255u);
  EXPECT_EQ(NextAttempt(first + 255, first), first + 256);
  EXPECT_EQ(NextAttempt(next - 2, first), next - 1) << "the last one";
  EXPECT_EQ(NextAttempt(next - 1, first), first) << "and no further";
  // An attempt of an earlier controller, and of a later one whose store was restored from a backup.
  EXPECT_EQ(NextAttempt(FirstAttempt(6) + 9, first), first);
  EXPECT_EQ(NextAttempt(next + 3, first), first);
  EXPECT_EQ(NextAttempt(~uint64_t{0}, first), first);
}

TEST(TaskTest, RefusesToDecodeOtherBytes) {
  TaskToken token;
  token.job = "j";
  const std::string good = EncodeToken(token);
  for (size_t size = 0; size + 1 < good.size(); ++size) {
    EXPECT_FALSE(DecodeToken(good.substr(0, size)).has_value()) << size;
  }
  std::string kind = good;
  kind[2] = 99;
  EXPECT_FALSE(DecodeToken(kind).has_value());
  kind[2] = 0;
  EXPECT_FALSE(DecodeToken(kind).has_value());
  std::string magic = good;
  magic[0] = 'x';
  EXPECT_FALSE(DecodeToken(magic).has_value());
}

}  // namespace
}  // namespace baton::controller
