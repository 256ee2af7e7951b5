#include "controller/runtime/job_runtime.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "boost/asio/post.hpp"
#include "controller/experience/experience_log.h"
#include "controller/ports/fake_job_files.h"
#include "controller/runtime/asio_executors.h"
#include "controller/runtime/disk_files.h"
#include "controller/runtime/tables.h"
#include "controller/runtime/worker_directory.h"
#include "controller/store/memory_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

v1::Job QueuedJob() {
  v1::Job job;
  job.set_name("projects/default/jobs/add");
  job.set_uid("1");
  v1::JobSpec& spec = *job.mutable_effective_spec();
  spec.set_kind(v1::JOB_KIND_RL);
  spec.mutable_resources()->set_rollout_workers(1);
  spec.mutable_resources()->set_reward_workers(1);
  job.mutable_dataflow()->add_score()->set_role("reward");
  return job;
}

// What was sent to a worker.
class Recorder : public WorkerStream {
 public:
  void Send(v1::ControllerMessage message) override {
    absl::MutexLock lock(&mu_);
    sent_.push_back(std::move(message));
  }
  void Close(absl::Status /*status*/) override {}
  /// Waits for a task of a node that scores.
  v1::Trajectory AwaitScored(const std::string& node = "") {
    absl::MutexLock lock(&mu_);
    v1::Trajectory found;
    const auto scored = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      for (const v1::ControllerMessage& message : sent_) {
        if (!message.task().has_score() || message.task().score().node() != node) continue;
        found = message.task().score().trajectory();
        return true;
      }
      return false;
    };
    mu_.AwaitWithTimeout(absl::Condition(&scored), absl::Seconds(20));
    return found;
  }
  /// Waits for a task that scores this response.
  v1::Trajectory AwaitScoredResponse(const std::string& text) {
    absl::MutexLock lock(&mu_);
    v1::Trajectory found;
    const auto scored = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      for (const v1::ControllerMessage& message : sent_) {
        if (message.task().score().trajectory().response_text() != text) continue;
        found = message.task().score().trajectory();
        return true;
      }
      return false;
    };
    mu_.AwaitWithTimeout(absl::Condition(&scored), absl::Seconds(20));
    return found;
  }
  /// Whose results were acknowledged, in order.
  std::vector<TaskRef> Acknowledged() {
    absl::MutexLock lock(&mu_);
    std::vector<TaskRef> refs;
    for (const v1::ControllerMessage& message : sent_) {
      if (!message.has_result_ack()) continue;
      refs.push_back(DecodeToken(message.result_ack().task_token())->ref);
    }
    return refs;
  }
  /// Waits for the task that generates a trajectory.
  v1::Generate AwaitGenerate(const std::string& trajectory) {
    absl::MutexLock lock(&mu_);
    v1::Generate found;
    const auto asked = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      for (const v1::ControllerMessage& message : sent_) {
        if (message.task().generate().trajectory_id() != trajectory) continue;
        found = message.task().generate();
        return true;
      }
      return false;
    };
    mu_.AwaitWithTimeout(absl::Condition(&asked), absl::Seconds(20));
    return found;
  }
  /// Waits for a task that saves.
  std::optional<TaskToken> AwaitSaveToken() {
    if (AwaitSaves(1).empty()) return std::nullopt;
    absl::MutexLock lock(&mu_);
    for (const v1::ControllerMessage& message : sent_) {
      if (message.task().has_save_checkpoint()) return DecodeToken(message.task().task_token());
    }
    return std::nullopt;
  }
  /// Waits for so many tasks that save; the folders that they name.
  std::vector<std::string> AwaitSaves(size_t count, absl::Duration limit = absl::Seconds(20)) {
    absl::MutexLock lock(&mu_);
    std::vector<std::string> folders;
    const auto enough = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      folders.clear();
      for (const v1::ControllerMessage& message : sent_) {
        if (!message.task().has_save_checkpoint()) continue;
        folders.push_back(message.task().save_checkpoint().directory());
      }
      return folders.size() >= count;
    };
    mu_.AwaitWithTimeout(absl::Condition(&enough), limit);
    return folders;
  }

 private:
  absl::Mutex mu_;
  std::vector<v1::ControllerMessage> sent_ ABSL_GUARDED_BY(mu_);
};

// A queue that has no worker to grant.
struct EmptyQueue : public WorkerQueue {
  void Need(const std::string& /*job*/, const NeedWorkers& /*need*/) override {}
  void Return(const std::string& /*job*/, const ReturnWorker& /*worker*/) override {}
  void Leave(const std::string& /*job*/) override {}
};

// What jobs need of a second controller over the data of a first.
struct RestartedController {
  /// `root`: an empty folder. The job's data are in its data.jsonl.
  RestartedController(std::string root, const std::string& data) : root(std::move(root)) {
    std::filesystem::create_directories(this->root);
    std::ofstream(this->root + "/data.jsonl") << data << "\n";
    context.epoch = 2;
    context.executors = &executors;
    context.clock = &clock;
    context.store = &store;
    context.files = &files;
    context.workers = &workers;
    context.queue = &queue;
  }
  ~RestartedController() {
    gate.Close();
    executors.Join();
    disk.join();
    std::filesystem::remove_all(root);
  }

  std::shared_ptr<JobRuntime> Start(
      const store::v1::JobRow& row,
      const std::map<uint64_t, store::v1::TrajectoryRow>& trajectories = {}) {
    const auto job = std::make_shared<JobRuntime>(
        &context, JobCore(row, trajectories, context.epoch, context.core), 1, /*stored=*/true);
    absl::Notification started;
    job->Start({}, [&] { started.Notify(); });
    started.WaitForNotification();
    return job;
  }

  const std::string root;
  boost::asio::thread_pool disk{1};
  Gate gate;
  AsioExecutors executors{AsioExecutors::Options(), &gate, &disk};
  store::MemoryStore store;
  DiskFiles files{root, nullptr, nullptr};
  WorkerDirectory workers;
  EmptyQueue queue;
  RealClock clock;
  RuntimeContext context;
};

std::string EmptyRoot(const std::string& name) {
  const std::string root = testing::TempDir() + "/" + name;
  std::filesystem::remove_all(root);
  return root;
}

// The first response of step 1, generated; its payload lies at `at`.
store::v1::TrajectoryRow GeneratedRow(const experience::Location& at) {
  store::v1::TrajectoryRow row;
  row.set_id(TrajectoryId(v1::PURPOSE_TRAIN, 0, 0, 1));
  row.set_purpose(v1::PURPOSE_TRAIN);
  row.set_step(1);
  row.set_incarnation(1);
  row.set_policy_version(1);
  row.set_tokens(1);
  row.set_file(at.file);
  row.set_offset(at.offset);
  row.set_size(at.size);
  return row;
}

// Of a job that runs: its first version is published, and `workers` ("ROLE-i") play its roles.
store::v1::JobRow RunningRow(const std::vector<std::string>& workers) {
  store::v1::JobRow row;
  *row.mutable_job() = QueuedJob();
  row.mutable_job()->set_state(v1::Job::STATE_RUNNING);
  row.mutable_job()->set_revision(1);
  row.mutable_job()->set_total_steps(9);
  row.mutable_job()->set_policy_version(1);
  row.mutable_job()->mutable_effective_spec()->mutable_data()->add_train_files("data.jsonl");
  row.set_published_version(1);
  row.set_evaluated_step(0);
  for (const std::string& worker : workers) {
    store::v1::SlotRow& slot = *row.add_slots();
    slot.set_role(worker.substr(0, worker.find('-')));
    slot.set_worker_id(worker);
    slot.set_ready(true);
    slot.set_credits(8);
  }
  return row;
}

// The first controller began the step in progress, which has so many trajectories: they are named
// from 1 on.
void GiveBirths(uint64_t trajectories, store::v1::JobRow& row) {
  row.mutable_births()->set_first(1);
  row.mutable_births()->set_incarnation(row.incarnation());
  row.set_next_birth(1 + trajectories);
}

template <typename T>
void AddColumn(v1::TaskResult& result, const std::string& name, v1::DataType dtype,
               const std::vector<T>& values) {
  v1::Column& column = *result.add_columns();
  column.set_name(name);
  column.set_dtype(dtype);
  column.set_data(values.data(), values.size() * sizeof(T));
}

// A controller that restarts in the middle of a step hears results before it has read the data;
// what the reward and the trainer get must still name the prompt and bring its answer.
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
  GiveBirths(4, row);

  absl::Notification heard;  // until then no file is read
  controller.executors.PostDataRead(
      "another", [] { return 0; }, [&] { heard.WaitForNotification(); });
  const auto reward = std::make_shared<Recorder>();
  controller.workers.Set("reward-0", reward);
  const auto job = controller.Start(row);

  TaskRef ref;  // of the first controller: the second draw's second sample
  ref.kind = TaskKind::kGenerate;
  ref.subject = TrajectoryId(v1::PURPOSE_TRAIN, 1, 1, 2);
  ref.attempt = 1 << 8;
  ref.birth = 4;
  job->Post(WorkerBack{"actor-0", {{"actor", 1}}, {}, {}});
  job->Post(WorkerBack{"reward-0", {{"reward", 0}}, {}, {}});
  job->Post(WorkerBack{"rollout-0", {{"rollout", 1}}, {}, {ref}});
  v1::TaskResult result;
  AddColumn<int32_t>(result, "prompt_tokens", v1::DATA_TYPE_INT32, {1, 2});
  AddColumn<int32_t>(result, "tokens", v1::DATA_TYPE_INT32, {3});
  AddColumn<float>(result, "rollout_log_prob", v1::DATA_TYPE_FLOAT32, {-1});
  result.set_response_text("4");
  result.set_prompt_text("<s>Add.</s><u>1+2=</u>");
  job->OnResult("rollout-0", ref, result);
  absl::Notification taken;
  job->Describe([&](const absl::StatusOr<v1::Job>&) { taken.Notify(); });
  taken.WaitForNotification();
  heard.Notify();

  const v1::Trajectory scored = reward->AwaitScored();
  EXPECT_EQ(scored.trajectory_id(), TrajectoryName(ref.subject));
  EXPECT_EQ(scored.group_id(), "draw-1");
  EXPECT_EQ(scored.prompt_id(), PromptSource(3, 0, false).At(1));
  EXPECT_EQ(scored.sample_index(), 1);
  EXPECT_EQ(scored.policy_version(), 1);
  EXPECT_EQ(scored.prompt_text(), "system: Add.\nuser: 1+2=");  // as the data set has it
  ASSERT_EQ(scored.messages_size(), 2);
  EXPECT_EQ(scored.messages(0).role(), "system");
  EXPECT_EQ(scored.messages(1).content(), "1+2=");
  EXPECT_EQ(scored.rendered_prompt(), "<s>Add.</s><u>1+2=</u>");  // as the model saw it
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
  GiveBirths(2, row);
  absl::Notification heard;  // until then no file is read
  controller.executors.PostDataRead(
      "another", [] { return 0; }, [&] { heard.WaitForNotification(); });
  const auto reward = std::make_shared<Recorder>();
  const auto rollout = std::make_shared<Recorder>();
  controller.workers.Set("reward-0", reward);
  controller.workers.Set("rollout-0", rollout);
  const auto job = controller.Start(row);

  std::vector<TaskRef> refs(2);  // of the first controller
  for (uint64_t draw = 0; draw < 2; ++draw) {
    refs[draw].kind = TaskKind::kGenerate;
    refs[draw].subject = TrajectoryId(v1::PURPOSE_TRAIN, draw, 0, 1);
    refs[draw].attempt = 1 << 8;
    refs[draw].birth = draw + 1;
  }
  job->Post(WorkerBack{"actor-0", {{"actor", 1}}, {}, {}});
  job->Post(WorkerBack{"reward-0", {{"reward", 0}}, {}, {}});
  job->Post(WorkerBack{"rollout-0", {{"rollout", 1}}, {}, refs});
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

  // Payloads are written in order: once the second is scored, all of the first has been told.
  EXPECT_EQ(reward->AwaitScoredResponse("5").trajectory_id(), TrajectoryName(refs[1].subject));
  EXPECT_THAT(rollout->Acknowledged(), ElementsAre(refs[0], refs[1]));
}

// Earlier releases stored the rendered prompt in place of that of the data set.
TEST(JobRuntimeTest, APayloadOfAnEarlierReleaseIsScoredByThePromptOfItsData) {
  RestartedController controller(
      EmptyRoot("earlier_payload"),
      R"({"prompt": [{"role": "system", "content": "Add."}, {"role": "user", "content": "1+2="}],)"
      R"( "answer": "3"})");
  const std::string folder = controller.root + "/jobs/default/add/experience";
  std::filesystem::create_directories(folder);
  v1::Trajectory payload;
  payload.set_trajectory_id("train-0");
  payload.set_prompt_text("<s>Add.</s><u>1+2=</u>");
  payload.set_response_text("3");
  auto log = experience::ExperienceLog::Open(folder).value();
  const experience::Location at = log->Append(payload.SerializeAsString()).value();
  log.reset();
  const store::v1::TrajectoryRow generated = GeneratedRow(at);

  store::v1::JobRow row = RunningRow({"actor-0", "rollout-0", "reward-0"});
  v1::JobSpec& spec = *row.mutable_job()->mutable_effective_spec();
  spec.mutable_data()->set_train_batch_size(1);
  spec.mutable_rollout()->set_n(1);
  row.set_incarnation(1);

  const auto reward = std::make_shared<Recorder>();
  controller.workers.Set("reward-0", reward);
  const auto job = controller.Start(row, {{1, generated}});
  job->Post(WorkerBack{"actor-0", {{"actor", 1}}, {}, {}});
  job->Post(WorkerBack{"rollout-0", {{"rollout", 1}}, {}, {}});
  job->Post(WorkerBack{"reward-0", {{"reward", 0}}, {}, {}});
  const v1::Trajectory scored = reward->AwaitScored();
  EXPECT_EQ(scored.response_text(), "3");
  EXPECT_EQ(scored.rendered_prompt(), "<s>Add.</s><u>1+2=</u>");
  EXPECT_EQ(scored.prompt_text(), "system: Add.\nuser: 1+2=");
  ASSERT_EQ(scored.messages_size(), 2);
  EXPECT_EQ(scored.messages(1).content(), "1+2=");
}

// After a restart a score reads its response from the log. A column that came first, and is written
// while that read waits, belongs to the response: a batch that lacked it would end the job.
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
  GiveBirths(2, row);

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
  ref.birth = 1;
  job->Post(WorkerBack{"reference-0", {{"reference", 0}}, {}, {ref}});
  job->Post(WorkerBack{"actor-0", {{"actor", 1}}, {}, {}});
  job->Post(WorkerBack{"rollout-0", {{"rollout", 1}}, {}, {}});
  rollout->AwaitGenerate("train-1");  // the data is known
  v1::TaskResult result;
  AddColumn<float>(result, "ref_log_prob", v1::DATA_TYPE_FLOAT32, {-1});
  job->OnResult("reference-0", ref, result);
  job->Post(WorkerBack{"reward-0", {{"reward", 0}}, {}, {}});
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

// Of a job whose ranks of the actor, each a worker of `workers`, save what they have after step 2.
store::v1::JobRow SavingRow(const std::vector<std::string>& workers) {
  store::v1::JobRow row;
  *row.mutable_job() = QueuedJob();
  row.mutable_job()->set_state(v1::Job::STATE_RUNNING);
  row.mutable_job()->set_revision(1);
  row.mutable_job()->set_step(2);
  row.mutable_job()->set_total_steps(9);
  row.mutable_job()->set_policy_version(3);
  v1::JobSpec& spec = *row.mutable_job()->mutable_effective_spec();
  spec.set_kind(v1::JOB_KIND_SFT);
  spec.mutable_data()->add_train_files("data.jsonl");
  spec.mutable_data()->set_train_batch_size(1);
  spec.mutable_actor()->mutable_parallel()->set_dp(static_cast<int>(workers.size()));
  row.mutable_job()->clear_dataflow();
  row.mutable_job()->mutable_dataflow()->add_update()->set_role("actor");
  row.set_incarnation(1);
  row.set_saved_step(0);
  store::v1::GroupRow& group = *row.add_groups();
  group.set_role("actor");
  group.set_generation(3);
  group.set_sequence(5);
  group.mutable_command()->set_kind(static_cast<int>(TaskKind::kSaveCheckpoint));
  group.mutable_command()->set_generation(3);
  group.mutable_command()->set_sequence(5);
  for (const std::string& worker : workers) {
    store::v1::SlotRow& slot = *row.add_slots();
    slot.set_role("actor");
    slot.set_worker_id(worker);
    slot.set_ready(true);
  }
  return row;
}

// Rank 0 writes into a folder that is made for it. A rank that comes back first after a restart
// must not begin: it would wait, within a collective, for one that may find no room.
TEST(JobRuntimeTest, RanksBeginToSaveWhenTheFolderStands) {
  RestartedController controller(EmptyRoot("ranks_save"), R"({"prompt": "1+1=", "response": "2"})");
  const store::v1::JobRow row = SavingRow({"actor-0", "actor-1"});

  const auto first = std::make_shared<Recorder>(), second = std::make_shared<Recorder>();
  controller.workers.Set("actor-0", first);
  controller.workers.Set("actor-1", second);
  const auto job = controller.Start(row);

  job->Post(WorkerBack{"actor-1", {{"actor", 3}}, {}, {}});
  EXPECT_TRUE(second->AwaitSaves(1, absl::Milliseconds(200)).empty());
  job->Post(WorkerBack{"actor-0", {{"actor", 3}}, {}, {}});
  const std::vector<std::string> folders = first->AwaitSaves(1);
  ASSERT_EQ(folders.size(), 1u);
  EXPECT_EQ(second->AwaitSaves(1), folders);
  EXPECT_TRUE(std::filesystem::is_directory(folders[0]));
  // A task that was lost on the way is sent again, and what stands is not cleared.
  std::ofstream(folders[0] + "/written") << "by rank 0";
  job->Post(WorkerBack{"actor-1", {{"actor", 3}}, {}, {}});
  EXPECT_EQ(second->AwaitSaves(2).size(), 2u);
  job->Post(WorkerBack{"actor-0", {{"actor", 3}}, {}, {}});
  EXPECT_EQ(first->AwaitSaves(2).size(), 2u);
  EXPECT_TRUE(std::filesystem::exists(folders[0] + "/written"));
}

// Waits until the job's disk is `healthy`, for 20 s at most.
bool BecomesHealthy(const JobRuntime& job, bool healthy) {
  const absl::Time end = absl::Now() + absl::Seconds(20);
  while (job.disk_health().ok() != healthy) {
    if (absl::Now() > end) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return true;
}

// A job whose first checkpoint waits for a full disk.
class FullDiskTest : public testing::Test {
 protected:
  FullDiskTest() {
    data_.train.examples.emplace_back().prompt = "1=";
    files_ = std::make_unique<FakeJobFiles>(data_);
    files_->SetFull(true);
    controller_.context.files = files_.get();
    const auto worker = std::make_shared<Recorder>();
    controller_.workers.Set("actor-0", worker);
    job_ = controller_.Start(SavingRow({"actor-0"}));
    job_->Post(WorkerBack{"actor-0", {{"actor", 3}}, {}, {}});
    const std::optional<TaskToken> save = worker->AwaitSaveToken();
    if (!save.has_value()) return;
    v1::TaskResult saved;
    saved.add_files()->set_path("actor.safetensors");
    job_->OnResult("actor-0", save->ref, saved);
    waits_ = BecomesHealthy(*job_, false);
  }
  v1::Job Described() {
    v1::Job found;
    absl::Notification told;
    job_->Describe([&](const absl::StatusOr<v1::Job>& job) {
      found = *job;
      told.Notify();
    });
    told.WaitForNotification();
    return found;
  }
  size_t Listed() { return controller_.store.Scan(kCheckpointTable, {})->size(); }

  JobData data_;
  RestartedController controller_{EmptyRoot("full_disk"), R"({"prompt": "1=", "response": "1"})"};
  std::unique_ptr<FakeJobFiles> files_;
  std::shared_ptr<JobRuntime> job_;
  bool waits_ = false;
};

// The job goes back to an earlier step meanwhile, and that step's successor saves anew: the folder
// that waited must not take the place of the new one.
TEST_F(FullDiskTest, ACheckpointIsGivenUpWhenItsJobGoesBack) {
  ASSERT_TRUE(waits_) << "the full disk refused the checkpoint";
  job_->Post(WorkerLost{"actor-0", "drained"});
  EXPECT_EQ(Described().step(), 0);
  files_->SetFull(false);
  ASSERT_TRUE(BecomesHealthy(*job_, true)) << "the write was given up, or is done";
  EXPECT_THAT(files_->checkpoints(), testing::IsEmpty());
}

// A checkpoint that was given up is listed nowhere.
TEST_F(FullDiskTest, ACheckpointOfACancelledJobIsNotListed) {
  ASSERT_TRUE(waits_) << "the full disk refused the checkpoint";
  const size_t before = Listed();
  job_->Post(CancelRequested{});
  job_->Post(WorkerLost{"actor-0", "drained"});
  EXPECT_EQ(Described().state(), v1::Job::STATE_CANCELLED);
  files_->SetFull(false);
  ASSERT_TRUE(BecomesHealthy(*job_, true)) << "the write was given up, or is done";
  Described();  // after what the write led to
  EXPECT_THAT(files_->checkpoints(), testing::IsEmpty());
  EXPECT_EQ(Listed(), before);
}

// The queue may answer on another thread before the turn that asked it is over.
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

// What a lost rollout said of its tokens goes on with them, for the distribution that they were
// sampled from as well: pieces without it were sampled from the full softmax.
// So it is with one whose rollout broke its word.
class MovedResponseTest : public testing::TestWithParam<bool> {};

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
  GiveBirths(2, row);
  const auto job = controller.Start(row);

  TaskRef ref;
  ref.kind = TaskKind::kGenerate;
  ref.subject = TrajectoryId(v1::PURPOSE_TRAIN, 1, 0, 1);
  const std::string other = TrajectoryName(TrajectoryId(v1::PURPOSE_TRAIN, 0, 0, 1));
  ref.attempt = 1 << 8;
  ref.birth = 2;
  job->Post(WorkerBack{"actor-0", {{"actor", 1}}, {}, {}});
  job->Post(WorkerBack{"reward-0", {{"reward", 0}}, {}, {}});
  job->Post(WorkerBack{"rollout-0", {{"rollout", 1}}, {ref}, {}});
  job->Post(WorkerBack{"rollout-1", {{"rollout", 1}}, {}, {}});
  rollouts->AwaitGenerate(other);  // the data is known
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
  piece(1, {-2, -3}, {-0.5, -0.25});
  piece(3, {-9, -9}, {-0.5});  // of another length: not taken
  piece(0, {-1}, {});          // the worker attached again: it says all again
  piece(3, {-4}, {});
  piece(4, {-8, -8, -8}, {});  // longer than a response may be: not taken
  if (GetParam()) {
    job->Post(WorkerLost{"rollout-0", "the test takes it"});
  } else {
    v1::TaskResult longer;  // than it was asked for
    AddColumn<int32_t>(longer, "prompt_tokens", v1::DATA_TYPE_INT32, {1, 2});
    AddColumn<int32_t>(longer, "tokens", v1::DATA_TYPE_INT32, std::vector<int32_t>(7, 7));
    AddColumn<float>(longer, "rollout_log_prob", v1::DATA_TYPE_FLOAT32, std::vector<float>(7, -1));
    job->OnResult("rollout-0", ref, longer);
  }
  const v1::Generate again = rollouts->AwaitGenerate(TrajectoryName(ref.subject));
  EXPECT_THAT(again.resume_tokens(), testing::ElementsAre(7, 7, 7, 7));
  EXPECT_THAT(again.resume_log_probs(), testing::ElementsAre(-1, -2, -3, -4));
  EXPECT_THAT(again.resume_sampling_log_probs(), testing::ElementsAre(-1, -0.5, -0.25, -4));
}

INSTANTIATE_TEST_SUITE_P(LostOrTooLong, MovedResponseTest, testing::Bool());

}  // namespace
}  // namespace baton::controller
