#include "sdk/worker/task_ledger.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::ElementsAre;

std::shared_ptr<TaskContext> Context(const std::string& token, std::vector<int32_t> resumed = {}) {
  v1::Task task;
  task.set_task_token(token);
  for (const int32_t id : resumed) {
    task.mutable_generate()->add_resume_tokens(id);
    task.mutable_generate()->add_resume_log_probs(-0.5f * id);
  }
  return std::make_shared<TaskContext>(task, std::weak_ptr<TaskSink>());
}

TaskLedgerOptions Options(size_t tokens) { return {absl::Seconds(100), tokens}; }
const auto kNow = SteadyClock::now();
const auto kLater = kNow + std::chrono::hours(1);

/// Everything that is due, progress only.
std::vector<v1::Progress> Drain(TaskLedger& ledger, SteadyClock::time_point now) {
  std::vector<v1::Progress> all;
  v1::WorkerMessage message;
  while (ledger.Next(now, message)) {
    if (message.has_progress()) all.push_back(message.progress());
  }
  return all;
}

TEST(TaskLedger, ProgressWaitsForEnoughTokensOrTime) {
  TaskLedger ledger(Options(3));
  const auto task = Context("t");
  ASSERT_TRUE(ledger.Begin(task));
  ledger.AddProgress(*task, {1, 2}, {-1.f, -2.f});
  EXPECT_TRUE(Drain(ledger, kNow).empty());
  ledger.AddProgress(*task, {3}, {-3.f});
  auto sent = Drain(ledger, kNow);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].offset(), 0u);
  EXPECT_THAT(sent[0].tokens(), ElementsAre(1, 2, 3));
  EXPECT_THAT(sent[0].log_probs(), ElementsAre(-1.f, -2.f, -3.f));
  ledger.AddProgress(*task, {4}, {-4.f});
  EXPECT_TRUE(Drain(ledger, kNow).empty());
  sent = Drain(ledger, kLater);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].offset(), 3u);
  EXPECT_THAT(sent[0].tokens(), ElementsAre(4));
}

TEST(TaskLedger, SamplingLogProbsGoAlongWhereTheyDiffer) {
  TaskLedger ledger(Options(1));
  const auto task = Context("t");
  ASSERT_TRUE(ledger.Begin(task));
  ledger.AddProgress(*task, {1, 2}, {-1.f, -2.f});
  EXPECT_THAT(Drain(ledger, kNow).at(0).sampling_log_probs(), ElementsAre());
  ledger.AddProgress(*task, {3}, {-3.f}, {-0.5f});
  ledger.AddProgress(*task, {4}, {-4.f});
  ledger.AddProgress(*task, {5, 6}, {-5.f, -6.f}, {-0.5f});  // of another length: ignored
  ledger.SendAgain();
  const auto sent = Drain(ledger, kNow);
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_THAT(sent[0].sampling_log_probs(), ElementsAre(-1.f, -2.f));
  EXPECT_THAT(sent[1].sampling_log_probs(), ElementsAre(-0.5f));
  EXPECT_THAT(sent[1].log_probs(), ElementsAre(-3.f));
  EXPECT_THAT(sent[2].sampling_log_probs(), ElementsAre(-4.f));
}

TEST(TaskLedger, AfterAReconnectTheSameChunksComeAgain) {
  TaskLedger ledger(Options(2));
  const auto task = Context("t", {7, 8});
  ASSERT_TRUE(ledger.Begin(task));
  ledger.AddProgress(*task, {1, 2}, {0.f, 0.f});
  auto sent = Drain(ledger, kNow);
  ASSERT_EQ(sent.size(), 1u);  // The controller knows the resumed tokens.
  EXPECT_EQ(sent[0].offset(), 2u);
  ledger.AddProgress(*task, {3}, {0.f});  // Not cut yet.
  ledger.SendAgain();
  sent = Drain(ledger, kNow);
  ASSERT_EQ(sent.size(), 2u);  // A restarted controller knows nothing: from the very first.
  EXPECT_EQ(sent[0].offset(), 0u);
  EXPECT_THAT(sent[0].tokens(), ElementsAre(7, 8));
  EXPECT_THAT(sent[0].log_probs(), ElementsAre(-3.5f, -4.f));
  EXPECT_THAT(sent[1].tokens(), ElementsAre(1, 2));
  v1::Hello hello;
  ledger.Describe(hello);
  ASSERT_EQ(hello.running_size(), 1);
  EXPECT_EQ(hello.running(0).offset(), 5u);
}

TEST(TaskLedger, OnlyTheNewestCountOfMicroBatchesIsSent) {
  TaskLedger ledger(Options(2));
  const auto task = Context("t");
  ASSERT_TRUE(ledger.Begin(task));
  ledger.NoteDone(*task, 1, 8);
  ledger.NoteDone(*task, 3, 8);
  ledger.NoteDone(*task, 9, 8);  // more than there are: ignored
  ledger.NoteDone(*task, 0, 0);
  EXPECT_TRUE(Drain(ledger, kNow).empty());  // it waits for its time
  auto sent = Drain(ledger, kLater);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].task_token(), "t");
  EXPECT_EQ(sent[0].done(), 3u);
  EXPECT_EQ(sent[0].total(), 8u);
  EXPECT_EQ(sent[0].tokens_size(), 0);
  EXPECT_TRUE(Drain(ledger, kLater).empty());

  ledger.NoteDone(*task, 4, 8);
  EXPECT_EQ(Drain(ledger, kLater).at(0).done(), 4u);
  ledger.SendAgain();  // a controller that started again knows nothing
  EXPECT_EQ(Drain(ledger, kLater).at(0).done(), 4u);
  ledger.NoteDone(*task, 5, 8);
  ledger.Finish(*task, v1::TaskResult());
  EXPECT_TRUE(Drain(ledger, kLater).empty());
}

TEST(TaskLedger, AResultHasItsBounds) {
  TaskLedger ledger(Options(3));
  const auto task = Context("t");
  ASSERT_TRUE(ledger.Begin(task));
  v1::TaskResult result;
  result.set_error(std::string(4 << 20, 'e'));
  ledger.Finish(*task, result);
  v1::WorkerMessage message;
  ASSERT_TRUE(ledger.Next(kNow, message));
  EXPECT_EQ(message.result().task_token(), "t");
  EXPECT_EQ(message.result().error().size(), 2048u);
}

TEST(TaskLedger, AResultIsKeptUntilItsAck) {
  TaskLedger ledger(Options(2));
  const auto task = Context("t");
  ASSERT_TRUE(ledger.Begin(task));
  EXPECT_FALSE(ledger.Begin(Context("t")));  // Runs already.
  ledger.Finish(*task, v1::TaskResult());
  v1::WorkerMessage message;
  ASSERT_TRUE(ledger.Next(kNow, message));
  EXPECT_EQ(message.result().task_token(), "t");
  EXPECT_FALSE(ledger.Next(kNow, message));
  v1::Hello hello;
  ledger.Describe(hello);
  EXPECT_EQ(hello.running_size(), 0);
  EXPECT_THAT(hello.unacknowledged(), ElementsAre("t"));

  EXPECT_FALSE(ledger.Begin(Context("t")));  // A repeated task gets the stored result.
  ASSERT_TRUE(ledger.Next(kNow, message));
  ledger.SendAgain();
  ASSERT_TRUE(ledger.Next(kNow, message));
  ledger.Acknowledge("t");
  ledger.SendAgain();
  EXPECT_FALSE(ledger.Next(kNow, message));
  EXPECT_EQ(ledger.unacknowledged(), 0u);
}

TEST(TaskLedger, AbandonedTasksLeaveNothing) {
  TaskLedger ledger(Options(2));
  const auto task = Context("t"), other = Context("u");
  ledger.Begin(task);
  ledger.Begin(other);
  EXPECT_THAT(ledger.AbandonAll(), ::testing::UnorderedElementsAre(task, other));
  ledger.AddProgress(*task, {1, 2}, {0.f, 0.f});
  ledger.Finish(*task, v1::TaskResult());
  v1::WorkerMessage message;
  EXPECT_FALSE(ledger.Next(kLater, message));
  EXPECT_EQ(ledger.running(), 0u);
  EXPECT_EQ(ledger.unacknowledged(), 0u);
}

TEST(TaskLedger, AnAbandonedTaskIsNotTheOneThatCameAgain) {
  TaskLedger ledger(Options(1));
  const auto abandoned = Context("t");
  const auto again = Context("t");
  ASSERT_TRUE(ledger.Begin(abandoned));
  EXPECT_EQ(ledger.AbandonAll().size(), 1u);
  ASSERT_TRUE(ledger.Begin(again));
  ledger.AddProgress(*abandoned, {7}, {-7.f});
  ledger.AddProgress(*again, {1}, {-1.f});
  ledger.Finish(*abandoned, v1::TaskResult());
  EXPECT_EQ(ledger.running(), 1u);
  EXPECT_EQ(ledger.unacknowledged(), 0u);
  const auto progress = Drain(ledger, kLater);
  ASSERT_EQ(progress.size(), 1u);
  EXPECT_THAT(progress[0].tokens(), ElementsAre(1));
  ledger.Finish(*again, v1::TaskResult());
  EXPECT_EQ(ledger.unacknowledged(), 1u);
}

}  // namespace
}  // namespace baton
