#include "controller/core/steps/early_reports.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/controller/parts.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;

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

TEST(EarlyReportsTest, AWorkerThatCameBackHasWhatItRunsAndWhatItIsAboutToSend) {
  EarlyReports early;
  const TaskRef runs = RefOf(TaskKind::kGenerate, 1), sends = RefOf(TaskKind::kScore, 2);
  const TaskRef update = RefOf(TaskKind::kUpdate, 3);
  early.NoteTasks({"w", {{"rollout", 7}}, {runs, update}, {sends}});
  EXPECT_TRUE(early.Told("w", runs));
  EXPECT_TRUE(early.Told("w", sends));
  EXPECT_FALSE(early.Told("other", runs));
  EXPECT_FALSE(early.Told("w", update)) << "the row of its group says what it may have";
  const auto tasks = early.TakeTasks();
  ASSERT_EQ(tasks.size(), 2u);
  EXPECT_EQ(tasks[0].ref, runs);
  EXPECT_TRUE(early.empty());
}

// A worker may be taking on a role, which has nothing to do with the work that ends.
TEST(EarlyReportsTest, DropDoesNotStopRoleTasks) {
  EarlyReports early;
  const TaskRef generates = RefOf(TaskKind::kGenerate, 1);
  early.NoteTasks({"w",
                   {},
                   {RefOf(TaskKind::kAssignRole, 2), RefOf(TaskKind::kLoadWeights, 3), generates},
                   {}});
  EffectSink out = SinkAt(absl::UnixEpoch());
  early.Drop("the trainer restarts", out);
  const auto stopped = TakeAll<StopTask>(out);
  ASSERT_EQ(stopped.size(), 1u);
  EXPECT_EQ(stopped[0].ref, generates);
}

TEST(EarlyReportsTest, AResultThatIsSentAgainAndAgainIsKeptOnce) {
  EarlyReports early;
  for (int i = 0; i < 3; ++i) early.NoteResult(ResultOf(TaskKind::kGenerate, 1));
  TaskDone other = ResultOf(TaskKind::kGenerate, 1);
  other.worker = "other";
  early.NoteResult(other);
  std::vector<std::string> seen;
  early.Replay(/*commands=*/false, [&](const TaskDone& done) { seen.push_back(done.worker); });
  EXPECT_THAT(seen, ElementsAre("w", "other"));
}

TEST(EarlyReportsTest, ResultsAreReplayedInTheirOrderAndOthersStay) {
  EarlyReports early;
  early.NoteResult(ResultOf(TaskKind::kGenerate, 1));
  early.NoteResult(ResultOf(TaskKind::kUpdate, 2));
  early.NoteResult(ResultOf(TaskKind::kScore, 3));
  std::vector<uint64_t> seen;
  const auto see = [&](const TaskDone& done) { seen.push_back(done.ref.subject); };
  early.Replay(/*commands=*/false, see);
  EXPECT_THAT(seen, ElementsAre(1, 3));
  early.Replay(/*commands=*/true, [&](const TaskDone& done) {
    see(done);
    early.NoteResult(done);  // still too early
  });
  EXPECT_THAT(seen, ElementsAre(1, 3, 2));
  EXPECT_FALSE(early.empty());
}

TEST(EarlyReportsTest, ForgetsReportsOfALostWorker) {
  EarlyReports early;
  const TaskRef ref = RefOf(TaskKind::kGenerate, 1);
  early.NoteTasks({"w", {{"rollout", 7}}, {ref}, {}});
  early.NoteTasks({"other", {{"rollout", 7}}, {ref}, {}});
  early.NoteResult(ResultOf(TaskKind::kGenerate, 1));
  early.Forget("w");
  EXPECT_FALSE(early.Told("w", ref));
  EXPECT_TRUE(early.Told("other", ref));
  early.Replay(/*commands=*/false, [](const TaskDone&) { ADD_FAILURE() << "of a lost worker"; });
}

TEST(EarlyReportsTest, AcknowledgesUnwantedResults) {
  EarlyReports early;
  EffectSink out = SinkAt(absl::UnixEpoch());
  early.NoteResult(ResultOf(TaskKind::kGenerate, 1));
  early.Drop("", out);
  const auto acks = TakeAll<AckResult>(out);
  ASSERT_EQ(acks.size(), 1u);
  EXPECT_EQ(acks[0].ref.subject, 1u);
  EXPECT_TRUE(early.empty());
}

TEST(EarlyReportsTest, StopsUnwantedTasks) {
  EarlyReports early;
  EffectSink out = SinkAt(absl::UnixEpoch());
  const TaskRef runs = RefOf(TaskKind::kGenerate, 1), sends = RefOf(TaskKind::kScore, 2);
  early.NoteTasks({"w", {{"rollout", 7}}, {runs}, {sends}});
  early.Drop("the job went back", out);
  const auto stops = TakeAll<StopTask>(out);
  ASSERT_EQ(stops.size(), 2u);
  EXPECT_EQ(stops[0].worker, "w");
  EXPECT_EQ(stops[0].ref, runs);
  EXPECT_EQ(stops[0].reason, "the job went back");
  EXPECT_EQ(stops[1].ref, sends);
  early.Drop("the job ended", out);
  EXPECT_TRUE(TakeAll<StopTask>(out).empty()) << "once";
}

}  // namespace
}  // namespace baton::controller
