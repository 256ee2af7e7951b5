#include "controller/core/task.h"

#include "gtest/gtest.h"

namespace baton::controller {
namespace {

TEST(TaskTest, ATokenSurvivesTheTrip) {
  TaskToken token;
  token.job = "projects/default/jobs/x";
  token.ref.kind = TaskKind::kScore;
  token.ref.subject = (uint64_t{2} << 56) | 12345;
  token.ref.part = 3;
  token.ref.attempt = (7u << 8) | 2;
  token.ref.step = 41;
  token.ref.incarnation = 9;
  const auto back = DecodeToken(EncodeToken(token));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->job, token.job);
  EXPECT_TRUE(back->ref == token.ref);
}

TEST(TaskTest, OtherBytesAreNoToken) {
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
