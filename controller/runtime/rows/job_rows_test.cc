#include "controller/runtime/rows/job_rows.h"

#include <map>
#include <set>
#include <string>

#include "controller/runtime/rows/tables.h"
#include "controller/spec/job_spec/spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

constexpr char kLongJob[] = "projects/default/jobs/long";

JobCore EvaluatedEveryFiveSteps() {
  v1::JobSpec spec;
  spec.set_kind(v1::JOB_KIND_RL);
  spec.mutable_model()->mutable_init()->set_characters("01");
  spec.mutable_data()->add_train_files("t");
  spec.mutable_data()->add_val_files("v");
  spec.mutable_reward()->add_rules()->set_type("numeric");
  spec.mutable_trainer()->set_total_training_steps(1000);
  spec.mutable_trainer()->set_test_freq(5);
  const CheckedSpec checked = CheckSpec(spec);
  EXPECT_TRUE(checked.violations.empty());
  v1::Job job;
  job.set_name(kLongJob);
  *job.mutable_effective_spec() = checked.effective;
  *job.mutable_dataflow() = checked.dataflow;
  return JobCore(std::move(job), 1, {});
}

TEST(JobRowsTest, ABatchHasARowUntilItIsDropped) {
  const JobCore core = EvaluatedEveryFiveSteps();
  PutBatch put;
  put.row.set_step(7);
  put.row.add_entries()->mutable_trajectory()->set_id(3);
  const TurnRows rows = RowsOfTurn(core, {put, DropBatches{4, 6}}, {});
  ASSERT_EQ(rows.writes.size(), 2u);
  EXPECT_EQ(rows.writes[0].table, kBatchTable);
  EXPECT_EQ(rows.writes[0].key, NumberKey(kLongJob, 7));
  EXPECT_EQ(rows.writes[0].schema, store::kSchemaVersion)
      << "a program that does not know the table would leave it behind";
  store::v1::BatchRow stored;
  ASSERT_TRUE(stored.ParseFromString(*rows.writes[0].value));
  EXPECT_EQ(stored.entries(0).trajectory().id(), 3u);
  EXPECT_EQ(rows.writes[1].key, NumberKey(kLongJob, 4));
  EXPECT_EQ(rows.writes[1].end, NumberKey(kLongJob, 6));
  EXPECT_FALSE(rows.writes[1].value.has_value());
  EXPECT_EQ(DurabilityOf(rows.writes), store::Durability::kPowerCut)
      << "what was trained on stays known";
}

// The cost of a turn depends on the rows that it deletes, not on the range of their numbers.
TEST(JobRowsTest, ManyRowsAreDroppedByOneWrite) {
  const JobCore core = EvaluatedEveryFiveSteps();
  const TurnRows rows = RowsOfTurn(
      core, {DropTrajectories{1, uint64_t{1} << 40}, DropBatches{1, int64_t{1} << 40}}, {});
  ASSERT_EQ(rows.writes.size(), 2u);
  EXPECT_EQ(rows.writes[0].table, kTrajectoryTable);
  EXPECT_EQ(rows.writes[0].end, NumberKey(kLongJob, uint64_t{1} << 40));
  EXPECT_EQ(rows.writes[1].table, kBatchTable);
}

// Steps that have a row left, by the end of its key.
TEST(JobRowsTest, OldMetricsAreThinnedAndEvaluationsCountByThemselves) {
  const JobCore core = EvaluatedEveryFiveSteps();
  const KeptRows kept{100, 100, 4};
  std::map<std::string, std::set<int64_t>> left;
  const auto apply = [&](const PutMetrics& metrics) {
    const TurnRows rows = RowsOfTurn(core, {metrics}, kept);
    EXPECT_FALSE(rows.job);
    for (const store::Write& write : rows.writes) {
      ASSERT_EQ(write.table, kMetricTable);
      const std::string kind = write.key.substr(write.key.rfind('/'));
      const auto step = static_cast<int64_t>(KeyNumber(write.key));
      if (write.value.has_value()) {
        left[kind].insert(step);
      } else {
        left[kind].erase(step);
      }
    }
  };
  for (int64_t step = 1; step <= 60; ++step) {
    apply({step, {{"actor/lr", 1}}});
    if (step % 5 == 0) apply({step, {{"val/accuracy", 1}}});
  }
  // All of 57 to 60; every 2nd of 53 to 56, every 4th of 45 to 52, every 8th of 29 to 44, every
  // 16th of the rest.
  EXPECT_THAT(left["/step"], ::testing::ElementsAre(16, 32, 40, 48, 52, 54, 56, 57, 58, 59, 60));
  // Evaluations 1 to 12: all of 9 to 12, every 2nd of 5 to 8, every 4th of 1 to 4.
  EXPECT_THAT(left["/val"], ::testing::ElementsAre(20, 30, 40, 45, 50, 55, 60));
}

TEST(JobRowsTest, TheNewestEventsAndLinesStay) {
  const JobCore core = EvaluatedEveryFiveSteps();
  const KeptRows kept{10, 20, 4};
  std::set<std::string> events, lines;
  const auto apply = [](const std::vector<store::Write>& writes, std::set<std::string>* rows) {
    for (const store::Write& write : writes) {
      if (write.table == kJobTable) continue;
      if (write.value.has_value()) {
        rows->insert(write.key);
      } else {
        rows->erase(write.key);
      }
    }
  };
  for (int64_t number = 1; number <= 500; ++number) {
    EmitEvent event;
    event.kept = true;
    event.event.set_revision(number);
    const TurnRows rows = RowsOfTurn(core, {event}, kept);
    EXPECT_TRUE(rows.job);
    apply(rows.writes, &events);
    event.kept = false;
    EXPECT_TRUE(RowsOfTurn(core, {event}, kept).writes.empty());
    v1::LogEntry line;
    line.set_sequence(number);
    apply(RowsOfLog(kLongJob, line, kept), &lines);
  }
  EXPECT_EQ(events.size(), 10u);
  EXPECT_EQ(*events.begin(), NumberKey(kLongJob, 491));
  EXPECT_EQ(lines.size(), 20u);
  EXPECT_EQ(*lines.begin(), NumberKey(kLongJob, 481));
}

// The log is bounded in bytes as well: a line of 3000 bytes counts as three of 1 KiB.
TEST(JobRowsTest, CountsALongLogLineAsSeveral) {
  EXPECT_EQ(LogUnits(""), 1);
  EXPECT_EQ(LogUnits(std::string(1024, 'x')), 1);
  EXPECT_EQ(LogUnits(std::string(1025, 'x')), 2);
  EXPECT_EQ(LogUnits(std::string(8192, 'x')), 8);
  std::set<std::string> lines;
  v1::LogEntry line;
  line.set_message(std::string(3000, 'x'));
  for (int64_t i = 1; i <= 100; ++i) {
    line.set_sequence(3 * i);
    for (const store::Write& write : RowsOfLog(kLongJob, line, {100, 20, 4})) {
      write.value.has_value() ? (void)lines.insert(write.key) : (void)lines.erase(write.key);
    }
  }
  // Each line's number is the last of its three; here those in 281 to 300.
  EXPECT_EQ(lines.size(), 7u);
  EXPECT_EQ(*lines.begin(), NumberKey(kLongJob, 282));
}

TEST(JobRowsTest, ATurnsWritesDoNotGrowWithTheCheckpoints) {
  JobCore fresh = EvaluatedEveryFiveSteps();
  fresh.Start(absl::UnixEpoch());
  store::v1::JobRow row = fresh.Row();
  const auto written = [](const store::v1::JobRow& of, const Effect& effect) {
    return RowsOfTurn(JobCore(of, {}, 2, {}), {effect}, {100, 100, 4}).writes;
  };
  const size_t size = written(row, PutJob{}).at(0).value->size();
  for (int step = 1; step <= 1000; ++step) {
    v1::Checkpoint& checkpoint = *row.add_checkpoints();
    checkpoint.set_step(step);
    checkpoint.set_path(absl::StrCat("/data/jobs/default/long/checkpoints/step-", step));
  }
  const auto turn = written(row, PutJob{});
  ASSERT_EQ(turn.size(), 1u);
  EXPECT_EQ(turn[0].value->size(), size);
  // Each row is written once, and deleted once.
  const std::string key = NumberKey(kLongJob, 7);
  const auto put = written(row, PutCheckpoint{row.checkpoints(6)});
  ASSERT_EQ(put.size(), 1u);
  EXPECT_EQ(put[0].table, kCheckpointTable);
  EXPECT_EQ(put[0].key, key);
  EXPECT_EQ(put[0].value, row.checkpoints(6).SerializeAsString());
  const auto gone = written(row, DeleteCheckpoint{row.checkpoints(6)});
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_EQ(gone[0].table, kCheckpointTable);
  EXPECT_EQ(gone[0].key, key);
  EXPECT_FALSE(gone[0].value.has_value());
}

}  // namespace
}  // namespace baton::controller
