#include "controller/runtime/job/job_runtime.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "boost/asio/post.hpp"
#include "controller/core/prompts/prompt_mix.h"
#include "controller/experience/experience_log.h"
#include "controller/ports/fake_job_files.h"
#include "controller/runtime/calls/asio_executors.h"
#include "controller/runtime/cluster/worker_directory.h"
#include "controller/runtime/job_files/disk_files.h"
#include "controller/runtime/rows/tables.h"
#include "controller/store/memory_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/rpc/error.h"
#include "tests/support/controller/job_runtime.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A controller that restarts in the middle of a step gets results before it has read the data; the
// tasks of the reward and the trainer must still have the prompt and its answer.
TEST(JobRuntimeTest, AResultThatComesBeforeTheDataIsPlacedOnceItIsThere) {
  RestartedController controller(
      EmptyRoot("early_result"),
      R"({"prompt": "1+1=", "answer": "2"})"
      "\n"
      R"({"prompt": [{"role": "system", "content": "Add."}, {"role": "user", "content": "1+2="}],)"
      R"( "answer": "3"})"
      "\n"
      R"({"prompt": "2+2=", "answer": "4"})");
  store::v1::JobRow row = RunningRow({"actor-0", "rollout-0", "reward-0"});
  v1::JobSpec& spec = *row.mutable_job()->mutable_effective_spec();
  spec.mutable_data()->set_train_batch_size(2);
  spec.mutable_rollout()->set_n(2);
  OpenGroups(row);

  absl::Notification heard;  // until then no file is read
  controller.executors.PostDataRead(
      "another", [] { return 0; }, [&] { heard.WaitForNotification(); });
  const auto reward = std::make_shared<Recorder>();
  controller.workers.Set("reward-0", reward);
  const auto job = controller.Start(row);

  TaskRef ref;  // of the first controller: the second prompt group's second sample
  ref.kind = TaskKind::kGenerate;
  ref.subject = TrajectoryId(v1::PURPOSE_TRAIN, 1, 1, 2);
  ref.attempt = 1 << 8;
  ref.trajectory_uid = 4;
  ref.version = 1;
  ref.prompt = PromptMix(spec.data(), {3}).At(1);
  job->Post(WorkerReconnected{"actor-0", {{"actor", 1}}, {}, {}});
  job->Post(WorkerReconnected{"reward-0", {{"reward", 0}}, {}, {}});
  job->Post(WorkerReconnected{"rollout-0", {{"rollout", 1}}, {}, {ref}});
  v1::TaskResult result;
  AddColumn<int32_t>(result, "prompt_tokens", v1::DATA_TYPE_INT32, {1, 2});
  AddColumn<int32_t>(result, "tokens", v1::DATA_TYPE_INT32, {3});
  AddColumn<float>(result, "rollout_log_prob", v1::DATA_TYPE_FLOAT32, {-1});
  result.set_response_text("4");
  result.set_prompt_text("<s>Add.</s><u>1+2=</u>");
  result.set_prompt_suffix("<think>");
  job->OnResult("rollout-0", ref, result);
  absl::Notification taken;
  job->Describe([&](const absl::StatusOr<v1::Job>&) { taken.Notify(); });
  taken.WaitForNotification();
  heard.Notify();

  const v1::Trajectory scored = reward->AwaitScored();
  EXPECT_EQ(scored.trajectory_id(), TrajectoryName(ref.subject));
  EXPECT_EQ(scored.group_id(), "group-1");
  EXPECT_EQ(scored.prompt_id(), PromptSource(3, 0, false).At(1));
  EXPECT_EQ(scored.sample_index(), 1);
  EXPECT_EQ(scored.policy_version(), 1);
  EXPECT_EQ(scored.prompt_text(), "system: Add.\nuser: 1+2=");  // as the data set has it
  ASSERT_EQ(scored.messages_size(), 2);
  EXPECT_EQ(scored.messages(0).role(), "system");
  EXPECT_EQ(scored.messages(1).content(), "1+2=");
  EXPECT_EQ(scored.rendered_prompt(), "<s>Add.</s><u>1+2=</u>");  // as the model saw it
  EXPECT_EQ(scored.prompt_suffix(), "<think>");
  EXPECT_EQ(scored.answer(), "3");
}

// A worker repeats its results when it attaches anew, and may do so before the data are read.
TEST(JobRuntimeTest, AResultThatIsRepeatedBeforeTheDataCountsOnce) {
  RestartedController controller(EmptyRoot("repeated_result"), R"({"prompt": "1+1="})"
                                                               "\n"
                                                               R"({"prompt": "1+2="})");
  store::v1::JobRow row = RunningRow({"actor-0", "rollout-0", "reward-0"});
  v1::JobSpec& spec = *row.mutable_job()->mutable_effective_spec();
  spec.mutable_data()->set_train_batch_size(2);
  spec.mutable_rollout()->set_n(1);
  OpenGroups(row);
  absl::Notification heard;  // until then no file is read
  controller.executors.PostDataRead(
      "another", [] { return 0; }, [&] { heard.WaitForNotification(); });
  const auto reward = std::make_shared<Recorder>();
  const auto rollout = std::make_shared<Recorder>();
  controller.workers.Set("reward-0", reward);
  controller.workers.Set("rollout-0", rollout);
  const auto job = controller.Start(row);

  std::vector<TaskRef> refs(2);  // of the first controller
  for (uint64_t prompt_index = 0; prompt_index < 2; ++prompt_index) {
    refs[prompt_index].kind = TaskKind::kGenerate;
    refs[prompt_index].subject = TrajectoryId(v1::PURPOSE_TRAIN, prompt_index, 0, 1);
    refs[prompt_index].attempt = 1 << 8;
    refs[prompt_index].trajectory_uid = prompt_index + 1;
    refs[prompt_index].version = 1;
    refs[prompt_index].prompt = PromptMix(spec.data(), {2}).At(prompt_index);
  }
  job->Post(WorkerReconnected{"actor-0", {{"actor", 1}}, {}, {}});
  job->Post(WorkerReconnected{"reward-0", {{"reward", 0}}, {}, {}});
  job->Post(WorkerReconnected{"rollout-0", {{"rollout", 1}}, {}, refs});
  v1::TaskResult result;
  AddColumn<int32_t>(result, "prompt_tokens", v1::DATA_TYPE_INT32, {1, 2});
  AddColumn<int32_t>(result, "tokens", v1::DATA_TYPE_INT32, {3});
  AddColumn<float>(result, "rollout_log_prob", v1::DATA_TYPE_FLOAT32, {-1});
  result.set_response_text("4");
  for (int times = 0; times < 3; ++times) job->OnResult("rollout-0", refs[0], result);
  result.set_response_text("5");
  job->OnResult("rollout-0", refs[1], result);
  absl::Notification taken;
  job->Describe([&](const absl::StatusOr<v1::Job>&) { taken.Notify(); });
  taken.WaitForNotification();
  EXPECT_THAT(rollout->Acknowledged(), IsEmpty()) << "nothing is stored yet";
  heard.Notify();

  // Payloads are written in order, so once the second is scored, everything about the first has
  // been reported.
  EXPECT_EQ(reward->AwaitScoredResponse("5").trajectory_id(), TrajectoryName(refs[1].subject));
  EXPECT_THAT(rollout->Acknowledged(2), ElementsAre(refs[0], refs[1]));
}

// A job of two groups of one response each, found by a second controller. No data file is read
// until ReadData.
class BeforeTheDataTest : public testing::Test {
 protected:
  BeforeTheDataTest()
      : controller_(EmptyRoot(testing::UnitTest::GetInstance()->current_test_info()->name()),
                    R"({"prompt": "1+1="})"
                    "\n"
                    R"({"prompt": "1+2="})") {
    row_.set_incarnation(1);
    row_.mutable_job()->mutable_dataflow()->mutable_score(0)->set_out("reward");
    v1::JobSpec& spec = *row_.mutable_job()->mutable_effective_spec();
    spec.mutable_data()->set_train_batch_size(2);
    spec.mutable_rollout()->set_n(1);
    OpenGroups(row_);
    controller_.executors.PostDataRead(
        "another", [] { return 0; }, [this] { heard_.WaitForNotification(); });
    controller_.workers.Set("rollout-0", rollout_);
    controller_.workers.Set("reward-0", reward_);
  }
  ~BeforeTheDataTest() override { ReadData(); }

  void ReadData() {
    if (!heard_.HasBeenNotified()) heard_.Notify();
  }
  // The task of the first controller that works on the first response.
  TaskRef RefOf(TaskKind kind) const {
    TaskRef ref;
    ref.kind = kind;
    ref.subject = TrajectoryId(v1::PURPOSE_TRAIN, 0, 0, 1);
    ref.attempt = 1 << 8;
    ref.trajectory_uid = 1;
    if (kind == TaskKind::kScore) return ref;
    ref.version = 1;
    ref.prompt = PromptMix(row_.job().effective_spec().data(), {2}).At(0);
    return ref;
  }
  // The second controller starts. Then all workers come back; they are about to send these results.
  void Start(const std::vector<TaskRef>& generations, const std::vector<TaskRef>& scores,
             const std::map<uint64_t, store::v1::TrajectoryRow>& trajectories = {}) {
    job_ = controller_.Start(row_, trajectories);
    job_->Post(WorkerReconnected{"actor-0", {{"actor", 1}}, {}, {}});
    job_->Post(WorkerReconnected{"reward-0", {{"reward", 0}}, {}, scores});
    job_->Post(WorkerReconnected{"rollout-0", {{"rollout", 1}}, {}, generations});
  }
  // Returns once the job has taken what was posted to it.
  void Settle() {
    absl::Notification taken;
    job_->Describe([&](const absl::StatusOr<v1::Job>&) { taken.Notify(); });
    taken.WaitForNotification();
  }

  store::v1::JobRow row_ = RunningRow({"actor-0", "rollout-0", "reward-0"});
  absl::Notification heard_;
  const std::shared_ptr<Recorder> rollout_ = std::make_shared<Recorder>();
  const std::shared_ptr<Recorder> reward_ = std::make_shared<Recorder>();
  RestartedController controller_;
  std::shared_ptr<JobRuntime> job_;
};

v1::TaskResult OutOfMemory() {
  v1::TaskResult failed;
  *failed.mutable_status() = ToProto(absl::UnavailableError("out of memory"));
  return failed;
}

// A failure is acted on once, after the data are read: the response is asked for again.
TEST_F(BeforeTheDataTest, AFailureThatIsRepeatedIsTriedAgain) {
  const TaskRef ref = RefOf(TaskKind::kGenerate);
  Start({ref}, {});
  for (int times = 0; times < 3; ++times) job_->OnResult("rollout-0", ref, OutOfMemory());
  Settle();
  EXPECT_THAT(rollout_->Acknowledged(), IsEmpty()) << "it is not known what it is of";
  ReadData();
  const std::string name = TrajectoryName(ref.subject);
  EXPECT_EQ(rollout_->AwaitGenerate(name).trajectory_id(), name);
  EXPECT_THAT(rollout_->Acknowledged(1), ElementsAre(ref));
}

// A reward has no payload.
TEST_F(BeforeTheDataTest, ARewardIsStoredOnceTheDataAreRead) {
  const TaskRef ref = RefOf(TaskKind::kScore);
  const store::v1::TrajectoryRow generated = GeneratedRow({1, 0, 10});
  Start({}, {ref}, {{1, generated}});
  v1::TaskResult result;
  (*result.mutable_metrics())["reward"] = 0.5;
  job_->OnResult("reward-0", ref, result);
  Settle();
  EXPECT_THAT(reward_->Acknowledged(), IsEmpty()) << "nothing is stored yet";
  ReadData();
  EXPECT_THAT(reward_->Acknowledged(1), ElementsAre(ref));
  const auto rows = controller_.store.Scan(kTrajectoryTable, NumberRange(job_->name(), 0));
  ASSERT_TRUE(rows.ok());
  ASSERT_EQ(rows->size(), 1u);
  store::v1::TrajectoryRow stored;
  ASSERT_TRUE(stored.ParseFromString(rows->front().value));
  EXPECT_EQ(stored.id(), generated.id());
  EXPECT_EQ(stored.scores().at("reward"), 0.5);
}

// A worker keeps a result until it is acknowledged, and nothing will take this one.
TEST_F(BeforeTheDataTest, ResultsOfAJobThatEndsAreAcknowledged) {
  const TaskRef ref = RefOf(TaskKind::kGenerate);
  Start({ref}, {});
  job_->OnResult("rollout-0", ref, OutOfMemory());
  Settle();
  EXPECT_THAT(rollout_->Acknowledged(), IsEmpty());
  job_->Post(CancelRequested{});
  for (const char* worker : {"actor-0", "rollout-0", "reward-0"}) {
    job_->Post(WorkerLost{worker, "the test takes it"});
  }
  EXPECT_THAT(rollout_->Acknowledged(1), ElementsAre(ref));
}

// After a restart a score reads its response from the log. A column that came earlier, and is
// written while that read waits, belongs to the response: a batch without it would end the job.
TEST(JobRuntimeTest, AColumnThatIsWrittenWhileAResponseIsReadIsPartOfIt) {
  RestartedController controller(EmptyRoot("column_and_read"),
                                 "{\"prompt\": \"1+1=\", \"answer\": \"2\"}");
  v1::Trajectory payload;
  payload.set_trajectory_id("train-0");
  payload.set_response_text("2");
  auto log = controller.files.FilesOf(QueuedJob().name())->OpenLog().value();
  const experience::Location at = log->Append(payload.SerializeAsString()).value();
  log.reset();
  const store::v1::TrajectoryRow generated = GeneratedRow(at);

  store::v1::JobRow row = RunningRow({"actor-0", "rollout-0", "reward-0", "reference-0"});
  row.set_incarnation(1);
  v1::Dataflow& dataflow = *row.mutable_job()->mutable_dataflow();
  dataflow.mutable_score(0)->set_out("reward");
  v1::ScoreNode& node = *dataflow.add_score();
  node.set_role("reference");
  node.set_out("ref_log_prob");
  v1::ScoreNode& reader = *dataflow.add_score();
  reader.set_node("reader");
  reader.set_role("reward");
  reader.add_inputs("ref_log_prob");
  reader.set_out("seen");
  v1::JobSpec& spec = *row.mutable_job()->mutable_effective_spec();
  spec.mutable_data()->set_train_batch_size(2);
  spec.mutable_rollout()->set_n(1);
  OpenGroups(row);

  const auto rollout = std::make_shared<Recorder>(), reward = std::make_shared<Recorder>();
  controller.workers.Set("rollout-0", rollout);
  controller.workers.Set("reward-0", reward);
  absl::Notification asked;  // until then the job's log is neither written nor read
  boost::asio::post(controller.disk, [&] { asked.WaitForNotification(); });
  const auto job = controller.Start(row, {{1, generated}});
  TaskRef ref;
  ref.kind = TaskKind::kScore;
  ref.subject = generated.id();
  ref.target = 1;
  ref.attempt = 1 << 8;
  ref.trajectory_uid = 1;
  job->Post(WorkerReconnected{"reference-0", {{"reference", 0}}, {}, {ref}});
  job->Post(WorkerReconnected{"actor-0", {{"actor", 1}}, {}, {}});
  job->Post(WorkerReconnected{"rollout-0", {{"rollout", 1}}, {}, {}});
  rollout->AwaitGenerate("train-1");  // the data is known
  v1::TaskResult result;
  AddColumn<float>(result, "ref_log_prob", v1::DATA_TYPE_FLOAT32, {-1});
  job->OnResult("reference-0", ref, result);
  job->Post(WorkerReconnected{"reward-0", {{"reward", 0}}, {}, {}});
  absl::Notification taken;
  job->Describe([&](const absl::StatusOr<v1::Job>&) { taken.Notify(); });
  taken.WaitForNotification();
  asked.Notify();

  EXPECT_EQ(reward->AwaitScored("").columns_size(), 0) << "its node names no inputs";
  const v1::Trajectory scored = reward->AwaitScored("reader");
  EXPECT_EQ(scored.response_text(), "2");
  ASSERT_EQ(scored.columns_size(), 1);
  EXPECT_EQ(scored.columns(0).name(), "ref_log_prob");
}

// A turn that no caller waits for may throw too.
TEST(JobRuntimeTest, QuarantinesAJobIfATurnThrowsWithoutACaller) {
  struct PoisonedStore : public store::MemoryStore {
    using MemoryStore::Commit;
    void Commit(std::vector<store::Write> writes, store::Durability durability,
                Done done) override {
      for (const store::Write& write : writes) {
        if (armed && write.table == kJobTable) throw std::length_error("a poisoned number");
      }
      MemoryStore::Commit(std::move(writes), durability, std::move(done));
    }
    std::atomic<bool> armed = false;
  } store;
  RestartedController controller(EmptyRoot("throwing_turn"), R"({"prompt": "1+1="})");
  controller.context.store = &store;
  const auto job = controller.Start(RunningRow({"actor-0", "rollout-0", "reward-0"}));
  store.armed = true;
  job->Post(RowsRefused{absl::ResourceExhaustedError("too long")});
  absl::Notification described;
  absl::StatusOr<v1::Job> seen;
  job->Describe([&](const absl::StatusOr<v1::Job>& answer) {
    seen = answer;
    described.Notify();
  });
  described.WaitForNotification();
  ASSERT_TRUE(seen.ok()) << seen.status();
  EXPECT_EQ(ErrorReason(FromProto(seen->error())), "QUARANTINED") << seen->ShortDebugString();
}

// The queue may answer on another thread before the turn that made the request is over.
TEST(JobRuntimeTest, AJobCanBeFoundWhenItsFirstEffectsLeave) {
  struct LookingQueue : public EmptyQueue {
    void Need(const std::string& /*job*/, const NeedWorkers& /*need*/) override {
      visible = job->visible();
    }
    const JobRuntime* job = nullptr;
    std::optional<bool> visible;
  } queue;
  RestartedController controller(EmptyRoot("found_early"), "");
  controller.context.queue = &queue;
  const auto job = std::make_shared<JobRuntime>(
      &controller.context, JobCore(QueuedJob(), 1, controller.context.core), 1, /*stored=*/false);
  queue.job = job.get();
  EXPECT_FALSE(job->visible());
  absl::Notification started;
  job->Start({}, [&] { started.Notify(); });
  started.WaitForNotification();
  EXPECT_EQ(queue.visible, true);
}

// The log-probs that a lost rollout reported move on with the tokens, and so do those of the
// distribution that they were sampled from; pieces without the latter were sampled from the full
// softmax. The same holds for a rollout that sent too long a response, and for one that was
// stopped: it then sends no whole response, but its tokens count. Here an earlier controller began
// the response; results received before recovery are kept until the job knows its responses.
enum class Moved { kLost, kTooLong, kStopped };
class MovedResponseTest : public testing::TestWithParam<Moved> {};

TEST_P(MovedResponseTest, KeepsBothOfItsLogProbs) {
  RestartedController controller(EmptyRoot("moved_response"),
                                 R"({"prompt": "1+1=", "answer": "2"})");
  store::v1::JobRow row = RunningRow({"actor-0", "rollout-0", "rollout-1", "reward-0"});
  v1::JobSpec& spec = *row.mutable_job()->mutable_effective_spec();
  spec.mutable_data()->set_train_batch_size(2);
  spec.mutable_data()->set_max_response_length(6);
  spec.mutable_rollout()->set_n(1);
  spec.mutable_resources()->set_rollout_workers(2);
  const auto rollouts = std::make_shared<Recorder>();
  controller.workers.Set("rollout-0", rollouts);
  controller.workers.Set("rollout-1", rollouts);
  OpenGroups(row);
  absl::Notification heard;  // until then no file is read
  controller.executors.PostDataRead(
      "another", [] { return 0; }, [&] { heard.WaitForNotification(); });
  const auto job = controller.Start(row);

  TaskRef ref;
  ref.kind = TaskKind::kGenerate;
  ref.subject = TrajectoryId(v1::PURPOSE_TRAIN, 1, 0, 1);
  const std::string other = TrajectoryName(TrajectoryId(v1::PURPOSE_TRAIN, 0, 0, 1));
  ref.attempt = 1 << 8;
  ref.trajectory_uid = 2;
  ref.version = 1;
  job->Post(WorkerReconnected{"actor-0", {{"actor", 1}}, {}, {}});
  job->Post(WorkerReconnected{"reward-0", {{"reward", 0}}, {}, {}});
  job->Post(WorkerReconnected{"rollout-0", {{"rollout", 1}}, {ref}, {}});
  const auto piece = [&](uint32_t offset, const std::vector<float>& log_probs,
                         const std::vector<float>& sampling) {
    v1::Progress progress;
    progress.set_offset(offset);
    for (size_t i = 0; i < log_probs.size(); ++i) progress.add_tokens(7);
    progress.mutable_log_probs()->Add(log_probs.begin(), log_probs.end());
    progress.mutable_sampling_log_probs()->Add(sampling.begin(), sampling.end());
    job->OnProgress("rollout-0", ref, progress);
  };
  piece(0, {-1}, {});
  job->Post(WorkerReconnected{"rollout-1", {{"rollout", 1}}, {}, {}});
  absl::Notification taken;
  job->Describe([&](const absl::StatusOr<v1::Job>&) { taken.Notify(); });
  taken.WaitForNotification();
  heard.Notify();
  rollouts->AwaitGenerate(other);  // the data is known
  piece(1, {-2, -3}, {-0.5, -0.25});
  piece(3, {-9, -9}, {-0.5});  // of another length: not taken
  piece(0, {-1}, {});          // the worker attached again: it says all again
  piece(3, {-4}, {});
  piece(4, {-8, -8, -8}, {});  // longer than a response may be: not taken
  if (GetParam() == Moved::kLost) {
    job->Post(WorkerLost{"rollout-0", "the test takes it"});
  } else if (GetParam() == Moved::kStopped) {
    v1::TaskResult stopped;
    AddColumn<int32_t>(stopped, "prompt_tokens", v1::DATA_TYPE_INT32, {1, 2});
    AddColumn<int32_t>(stopped, "tokens", v1::DATA_TYPE_INT32, {7, 7, 7, 7, 8});
    AddColumn<float>(stopped, "rollout_log_prob", v1::DATA_TYPE_FLOAT32, {-1, -2, -3, -4, -5});
    AddColumn<float>(stopped, "sampling_log_prob", v1::DATA_TYPE_FLOAT32, {-1, -2, -3, -4, -4.5});
    stopped.set_finish_reason("cancelled");
    job->OnResult("rollout-0", ref, stopped);
  } else {
    v1::TaskResult longer;  // than it was asked for
    AddColumn<int32_t>(longer, "prompt_tokens", v1::DATA_TYPE_INT32, {1, 2});
    AddColumn<int32_t>(longer, "tokens", v1::DATA_TYPE_INT32, std::vector<int32_t>(7, 7));
    AddColumn<float>(longer, "rollout_log_prob", v1::DATA_TYPE_FLOAT32, std::vector<float>(7, -1));
    job->OnResult("rollout-0", ref, longer);
  }
  const v1::Generate again = rollouts->AwaitGenerate(TrajectoryName(ref.subject));
  if (GetParam() == Moved::kStopped) {
    EXPECT_THAT(again.resume_tokens(), testing::ElementsAre(7, 7, 7, 7, 8));
    EXPECT_THAT(again.resume_sampling_log_probs(), testing::ElementsAre(-1, -2, -3, -4, -4.5));
    return;
  }
  EXPECT_THAT(again.resume_tokens(), testing::ElementsAre(7, 7, 7, 7));
  EXPECT_THAT(again.resume_log_probs(), testing::ElementsAre(-1, -2, -3, -4));
  EXPECT_THAT(again.resume_sampling_log_probs(), testing::ElementsAre(-1, -0.5, -0.25, -4));
}

INSTANTIATE_TEST_SUITE_P(Moved, MovedResponseTest,
                         testing::Values(Moved::kLost, Moved::kTooLong, Moved::kStopped));

// While the store is slow, lines of workers fill no more memory than their bound: 1 MiB is 128
// lines of 8 KiB.
TEST(JobRuntimeTest, LinesThatWaitForTheStoreAreBoundedInBytes) {
  RestartedController controller(EmptyRoot("waiting_lines"), R"({"prompt": "1+1="})");
  controller.context.kept = {1000, 100'000, 1000};
  const auto job = controller.Start(JobCore(QueuedJob(), 1, {}).Row());
  controller.store.FailWith(absl::ResourceExhaustedError("disk full"));
  v1::WorkerLog line;
  line.set_level("INFO");
  line.set_message(std::string(8192, 'x'));
  for (int i = 0; i < 300; ++i) job->OnWorkerLog("w", line);
  // The strand runs in order: behind the lines.
  absl::Notification taken;
  job->Explain([&](const auto&) { taken.Notify(); });
  taken.WaitForNotification();
  controller.store.FailWith(absl::OkStatus());
  line.set_message("the last one");
  absl::Notification described;
  job->Describe([&](const auto&) { described.Notify(); });
  described.WaitForNotification();
  job->OnWorkerLog("w", line);
  absl::Notification written;
  job->Describe([&](const auto&) { written.Notify(); });
  written.WaitForNotification();
  const auto rows = controller.store.Scan(kLogTable, {});
  ASSERT_TRUE(rows.ok());
  std::vector<v1::LogEntry> lines(rows->size());
  size_t long_ones = 0, bytes = 0;
  for (size_t i = 0; i < rows->size(); ++i) {
    ASSERT_TRUE(lines[i].ParseFromString((*rows)[i].value));
    if (lines[i].message().size() == 8192) ++long_ones;
    bytes += (*rows)[i].value.size();
  }
  EXPECT_EQ(long_ones, 128u);
  EXPECT_LT(bytes, 2u << 20);
  ASSERT_GE(lines.size(), 2u);
  EXPECT_EQ(lines.back().message(), "the last one");
  EXPECT_THAT(lines[lines.size() - 2].message(), ::testing::HasSubstr("172 lines were dropped"));
  // Each line counts as the eight lines of 1 KiB that it could have been.
  EXPECT_GE(lines.back().sequence(), 128 * 8 + 2);
}

}  // namespace
}  // namespace baton::controller
