#include "controller/runtime/payloads/recorded_batch.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/runtime/rows/tables.h"
#include "controller/store/memory_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kFirst = 10, kSecond = 11;

v1::Trajectory WithColumns(const std::string& id, const std::vector<std::string>& columns) {
  v1::Trajectory out;
  out.set_trajectory_id(id);
  for (const std::string& name : columns) out.add_columns()->set_name(name);
  return out;
}

// A batch of two responses with two columns each, one of the log and one that was added; the second
// response was left out by a filter if `filtered`.
struct BatchAndRow {
  store::v1::BatchRow row;
  BuildBatch ask;
  BuiltBatch built;
};

BatchAndRow Same(bool filtered = false) {
  BatchAndRow out;
  out.row.set_step(7);
  out.ask.step = 7;
  for (const uint64_t id : {kFirst, kSecond}) {
    store::v1::BatchEntry* entry = out.row.add_entries();
    entry->mutable_trajectory()->set_id(id);
    out.ask.trajectories.emplace_back().id = id;
    if (filtered && id == kSecond) continue;
    entry->add_column_hashes(id * 100);
    entry->add_column_hashes(id * 100 + 1);
    out.built.event.column_hashes[id] = {id * 100, id * 100 + 1};
    BatchEntry& batch = out.built.entries.emplace_back();
    batch.logged.id = id;
    batch.columns = std::make_shared<const std::vector<std::string>>(1, "rollout_log_prob");
    batch.added = std::make_shared<const PackedPayload>(WithColumns("", {"advantages"}));
  }
  return out;
}

std::string Problem(BatchAndRow pair) {
  const absl::Status status = CompareWithRow(pair.row, pair.ask, &pair.built);
  EXPECT_TRUE(status.ok() || absl::IsDataLoss(status)) << status;
  return std::string(status.message());
}

TEST(CompareWithRow, TheRecordedBatchIsTheSame) {
  EXPECT_EQ(Problem(Same()), "");
  EXPECT_EQ(Problem(Same(/*filtered=*/true)), "");
}

// A restart reads columns from the log in another order than they arrived in.
TEST(CompareWithRow, TheOrderOfColumnsDoesNotCount) {
  BatchAndRow pair = Same();
  std::swap(pair.built.event.column_hashes[kFirst][0], pair.built.event.column_hashes[kFirst][1]);
  EXPECT_EQ(Problem(pair), "");
}

TEST(CompareWithRow, AChangedColumnIsNamedWithBothHashes) {
  BatchAndRow pair = Same();
  pair.built.event.column_hashes[kSecond][1] = 0xabc;
  EXPECT_THAT(Problem(pair), HasSubstr("step 7"));
  EXPECT_THAT(Problem(pair),
              HasSubstr(absl::StrCat(TrajectoryName(kSecond),
                                     " has column advantages of hash 0000000000000abc, recorded is "
                                     "000000000000044d")));    // 11 * 100 + 1
  pair.built.event.column_hashes[kSecond][1] = kSecond * 100;  // a column twice, the other missing
  EXPECT_THAT(Problem(pair), HasSubstr("000000000000044d"));
}

TEST(CompareWithRow, AResponseThatAFilterTreatsOtherwiseIsNamed) {
  BatchAndRow pair = Same(/*filtered=*/true);
  pair.built.event.column_hashes[kSecond] = {1, 2};
  EXPECT_THAT(Problem(pair), HasSubstr("was left out by a filter, and is not now"));
  pair = Same();
  pair.built.event.column_hashes.erase(kFirst);
  EXPECT_THAT(Problem(pair), HasSubstr("a filter leaves it out now"));
  pair = Same();
  pair.built.event.column_hashes[kFirst].pop_back();
  EXPECT_THAT(Problem(pair), HasSubstr("lacks a column, of hash 00000000000003e9"));  // 1001
  pair = Same();
  pair.built.event.column_hashes[kFirst].push_back(5);
  EXPECT_THAT(Problem(pair), HasSubstr("recorded is no such column"));
}

TEST(CompareWithRow, OtherResponsesOrAnotherOrderAreNotTheBatch) {
  BatchAndRow pair = Same();
  std::swap(pair.ask.trajectories[0], pair.ask.trajectories[1]);
  EXPECT_THAT(Problem(pair), HasSubstr(absl::StrCat(TrajectoryName(kSecond), " stands where ",
                                                    TrajectoryName(kFirst), " stood")));
  pair = Same();
  pair.ask.trajectories.pop_back();
  EXPECT_THAT(Problem(pair), HasSubstr("has 1 responses, recorded are 2"));
}

TEST(ReadBatchRow, TellsAMissingRowFromADamagedOne) {
  store::MemoryStore store;
  store::v1::BatchRow row;
  row.set_step(3);
  (*row.mutable_baselines())[4] = 0.5;
  row.add_entries()->mutable_trajectory()->set_id(kFirst);
  store.Commit({{kBatchTable, NumberKey("job", 3), row.SerializeAsString()},
                {kBatchTable, NumberKey("job", 4), row.SerializeAsString()},
                {kBatchTable, NumberKey("job", 5), "no row"}},
               [](const absl::Status&) {});
  const auto read = ReadBatchRow(store, "job", 3);
  ASSERT_TRUE(read.ok() && read->has_value()) << read.status();
  BuildBatch ask;
  AskFor(**read, &ask);
  ASSERT_EQ(ask.trajectories.size(), 1u);
  EXPECT_EQ(ask.trajectories[0].id, kFirst);
  EXPECT_EQ(ask.baselines, (std::map<uint64_t, double>{{4, 0.5}}));
  const auto none = ReadBatchRow(store, "job", 2);
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_FALSE(none->has_value());
  EXPECT_TRUE(absl::IsDataLoss(ReadBatchRow(store, "job", 4).status())) << "it is of step 3";
  EXPECT_TRUE(absl::IsDataLoss(ReadBatchRow(store, "job", 5).status()));
}

}  // namespace
}  // namespace baton::controller
