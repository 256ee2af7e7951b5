#include "controller/runtime/rows/checkpoint_rows.h"

#include <string>
#include <vector>

#include "controller/runtime/rows/tables.h"
#include "controller/store/memory_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

constexpr char kKeeper[] = "projects/default/jobs/keeper";

v1::Checkpoint KeptAt(int64_t step) {
  v1::Checkpoint checkpoint;
  checkpoint.set_step(step);
  checkpoint.set_path("step-" + std::to_string(step));
  return checkpoint;
}

store::Write RowAt(int64_t step) {
  return {kCheckpointTable, NumberKey(kKeeper, static_cast<uint64_t>(step)),
          KeptAt(step).SerializeAsString()};
}

std::vector<int64_t> StepsOf(const store::v1::JobRow& row) {
  std::vector<int64_t> out;
  for (const v1::Checkpoint& checkpoint : row.checkpoints()) out.push_back(checkpoint.step());
  return out;
}

TEST(CheckpointRowsTest, ReadsTheJobsOwnCheckpointsOldestFirst) {
  store::MemoryStore store;
  store.Commit({RowAt(300), RowAt(20), RowAt(4)}, [](const absl::Status&) {});
  store.Commit({{kCheckpointTable, NumberKey("projects/default/jobs/keeper-2", 1),
                 KeptAt(1).SerializeAsString()}},
               [](const absl::Status&) {});
  store::v1::JobRow row;
  ASSERT_TRUE(ReadCheckpoints(store, kKeeper, &row).ok());
  EXPECT_THAT(StepsOf(row), ::testing::ElementsAre(4, 20, 300));
  EXPECT_EQ(row.checkpoints(2).path(), "step-300");
}

TEST(CheckpointRowsTest, ADamagedRowIsNamed) {
  store::MemoryStore store;
  store.Commit({{kCheckpointTable, NumberKey(kKeeper, 4), "\xff"}}, [](const absl::Status&) {});
  store::v1::JobRow row;
  const absl::Status status = ReadCheckpoints(store, kKeeper, &row);
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(NumberKey(kKeeper, 4)));
}

}  // namespace
}  // namespace baton::controller
