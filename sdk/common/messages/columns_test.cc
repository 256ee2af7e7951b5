#include "sdk/common/messages/columns.h"

#include <gtest/gtest.h>

#include "baton/v1/worker_service.pb.h"

namespace baton {
namespace {

TEST(ColumnsTest, FoundByNameInTrajectoriesAndResults) {
  v1::Trajectory trajectory;
  *trajectory.add_columns() = MakeColumn("tokens", true, absl::Span<const int32_t>({1, 256}));
  *trajectory.add_columns() = MakeColumn("reward", false, absl::Span<const float>({1.0F}));
  v1::TaskResult result;
  *result.mutable_columns() = trajectory.columns();
  EXPECT_EQ(FindColumn(trajectory, "tokens"), &trajectory.columns(0));
  EXPECT_EQ(FindColumn(result, "reward"), &result.columns(1));
  EXPECT_EQ(FindColumn(result, "token"), nullptr);
}

// Little-endian, as all machines that Baton runs on.
TEST(ColumnsTest, HoldTheBytesOfTheirValues) {
  const v1::Column tokens = MakeColumn("tokens", true, absl::Span<const int32_t>({1, 256}));
  EXPECT_EQ(tokens.dtype(), v1::DATA_TYPE_INT32);
  EXPECT_TRUE(tokens.per_token());
  EXPECT_EQ(tokens.data(), std::string("\1\0\0\0\0\1\0\0", 8));
  const v1::Column reward = MakeColumn("reward", false, absl::Span<const float>({1.0F}));
  EXPECT_EQ(reward.dtype(), v1::DATA_TYPE_FLOAT32);
  EXPECT_FALSE(reward.per_token());
  EXPECT_EQ(reward.data(), std::string("\0\0\x80\x3f", 4));
}

}  // namespace
}  // namespace baton
