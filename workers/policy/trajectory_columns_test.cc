#include "workers/policy/trajectory_columns.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/messages/columns.h"

namespace baton::policy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(TrajectoryColumns, AreLittleEndianArrays) {
  const v1::Column column = MakeColumn("tokens", true, std::vector<int32_t>{1, 258});
  EXPECT_EQ(column.data(), std::string("\x01\0\0\0\x02\x01\0\0", 8));
  EXPECT_EQ(column.dtype(), v1::DATA_TYPE_INT32);
  EXPECT_TRUE(column.per_token());
}

TEST(TrajectoryColumns, AreReadByNameAndType) {
  v1::Trajectory trajectory;
  trajectory.set_trajectory_id("t-1");
  *trajectory.add_columns() = MakeColumn("tokens", true, std::vector<int32_t>{4, 5});
  *trajectory.add_columns() = MakeColumn("advantages", false, std::vector<float>{0.5f});
  EXPECT_THAT(ReadInt32(trajectory, "tokens").value(), ElementsAre(4, 5));
  EXPECT_THAT(ReadFloat(trajectory, "advantages").value(), ElementsAre(0.5f));
  EXPECT_TRUE(absl::IsNotFound(ReadFloat(trajectory, "values").status()));
  const auto wrong = ReadFloat(trajectory, "tokens");
  EXPECT_THAT(std::string(wrong.status().message()), HasSubstr("column tokens of trajectory t-1"));
  trajectory.mutable_columns(0)->mutable_data()->pop_back();
  EXPECT_TRUE(absl::IsInvalidArgument(ReadInt32(trajectory, "tokens").status()));
}

TEST(TrajectoryColumns, DoublesAreNarrowed) {
  v1::Trajectory trajectory;
  v1::Column* column = trajectory.add_columns();
  column->set_name("advantages");
  column->set_dtype(v1::DATA_TYPE_FLOAT64);
  const double value = 0.25;
  column->set_data(&value, sizeof(value));
  EXPECT_THAT(ReadFloat(trajectory, "advantages").value(), ElementsAre(0.25f));
}

}  // namespace
}  // namespace baton::policy
