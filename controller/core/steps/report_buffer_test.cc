#include "controller/core/steps/report_buffer.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/controller/parts.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;

using ::testing::IsEmpty;

TaskRef RefOf(TaskKind kind, uint64_t subject) {
  TaskRef ref;
  ref.kind = kind;
  ref.subject = subject;
  return ref;
}

TaskDone ResultOf(TaskKind kind, uint64_t subject) {
  TaskDone done;
  done.worker = "w";
  done.ref = RefOf(kind, subject);
  return done;
}

TEST(ReportBufferTest, AWorkerThatCameBackHasWhatItRunsAndWhatItIsAboutToSend) {
  ReportBuffer reports;
  const TaskRef runs = RefOf(TaskKind::kGenerate, 1), sends = RefOf(TaskKind::kScore, 2);
  const TaskRef update = RefOf(TaskKind::kUpdate, 3);
  reports.NoteTasks({"w", {{"rollout", 7}}, {runs, update}, {sends}});
  EXPECT_TRUE(reports.Reported("w", runs));
  EXPECT_TRUE(reports.Reported("w", sends));
  EXPECT_FALSE(reports.Reported("other", runs));
  EXPECT_FALSE(reports.Reported("w", update)) << "the row of its group says what it may have";
  const auto tasks = reports.TakeTasks();
  ASSERT_EQ(tasks.size(), 2u);
  EXPECT_EQ(tasks[0].ref, runs);
  EXPECT_FALSE(reports.AnyRuns());
}

// A worker may be taking on a role, which has nothing to do with the work that ends.
TEST(ReportBufferTest, DropDoesNotStopRoleTasks) {
  ReportBuffer reports;
  const TaskRef generates = RefOf(TaskKind::kGenerate, 1);
  reports.NoteTasks({"w",
                     {},
                     {RefOf(TaskKind::kAssignRole, 2), RefOf(TaskKind::kLoadWeights, 3), generates},
                     {}});
  EffectSink out = SinkAt(absl::UnixEpoch());
  reports.Drop("the trainer restarts", out);
  const auto stopped = TakeAll<StopTask>(out);
  ASSERT_EQ(stopped.size(), 1u);
  EXPECT_EQ(stopped[0].ref, generates);
}

TEST(ReportBufferTest, AResultThatIsSentAgainAndAgainIsKeptOnce) {
  ReportBuffer reports;
  for (int i = 0; i < 3; ++i) reports.NoteResult(ResultOf(TaskKind::kUpdate, 1));
  TaskDone other = ResultOf(TaskKind::kUpdate, 1);
  other.worker = "other";
  reports.NoteResult(other);
  std::vector<std::string> seen;
  for (const TaskDone& done : reports.TakeResults()) seen.push_back(done.worker);
  EXPECT_THAT(seen, ElementsAre("w", "other"));
}

TEST(ReportBufferTest, ResultsAreTakenOnceInTheirOrder) {
  ReportBuffer reports;
  reports.NoteResult(ResultOf(TaskKind::kUpdate, 2));
  reports.NoteResult(ResultOf(TaskKind::kUpdate, 1));
  std::vector<uint64_t> seen;
  for (const TaskDone& done : reports.TakeResults()) seen.push_back(done.ref.subject);
  EXPECT_THAT(seen, ElementsAre(2, 1));
  EXPECT_THAT(reports.TakeResults(), IsEmpty());
}

TEST(ReportBufferTest, ForgetsReportsOfALostWorker) {
  ReportBuffer reports;
  const TaskRef ref = RefOf(TaskKind::kGenerate, 1);
  reports.NoteTasks({"w", {{"rollout", 7}}, {ref}, {}});
  reports.NoteTasks({"other", {{"rollout", 7}}, {ref}, {}});
  reports.NoteResult(ResultOf(TaskKind::kUpdate, 1));
  reports.Forget("w");
  EXPECT_FALSE(reports.Reported("w", ref));
  EXPECT_TRUE(reports.Reported("other", ref));
  EXPECT_THAT(reports.TakeResults(), IsEmpty()) << "of a lost worker";
}

TEST(ReportBufferTest, AcknowledgesUnwantedResults) {
  ReportBuffer reports;
  EffectSink out = SinkAt(absl::UnixEpoch());
  reports.NoteResult(ResultOf(TaskKind::kUpdate, 1));
  reports.Drop("", out);
  const auto acks = TakeAll<AckResult>(out);
  ASSERT_EQ(acks.size(), 1u);
  EXPECT_EQ(acks[0].ref.subject, 1u);
  EXPECT_THAT(reports.TakeResults(), IsEmpty());
}

TEST(ReportBufferTest, StopsUnwantedTasks) {
  ReportBuffer reports;
  EffectSink out = SinkAt(absl::UnixEpoch());
  const TaskRef runs = RefOf(TaskKind::kGenerate, 1), sends = RefOf(TaskKind::kScore, 2);
  reports.NoteTasks({"w", {{"rollout", 7}}, {runs}, {sends}});
  reports.Drop("the job went back", out);
  const auto stops = TakeAll<StopTask>(out);
  ASSERT_EQ(stops.size(), 2u);
  EXPECT_EQ(stops[0].worker, "w");
  EXPECT_EQ(stops[0].ref, runs);
  EXPECT_EQ(stops[0].reason, "the job went back");
  EXPECT_EQ(stops[1].ref, sends);
  reports.Drop("the job ended", out);
  EXPECT_TRUE(TakeAll<StopTask>(out).empty()) << "once";
}

}  // namespace
}  // namespace baton::controller
