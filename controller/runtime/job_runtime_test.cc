#include "controller/runtime/job_runtime.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "controller/experience/experience_log.h"
#include "controller/store/memory_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

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
  /// Waits for a task that scores.
  v1::Trajectory AwaitScored() {
    absl::MutexLock lock(&mu_);
    v1::Trajectory found;
    const auto scored = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      for (const v1::ControllerMessage& message : sent_) {
        if (!message.task().has_score()) continue;
        found = message.task().score().trajectory();
        return true;
      }
      return false;
    };
    mu_.AwaitWithTimeout(absl::Condition(&scored), absl::Seconds(20));
    return found;
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

// What jobs need of a second controller over the data of a first. It has no queue.
struct RestartedController {
  /// `root`: an empty folder. The job's data are in its data.jsonl.
  RestartedController(std::string root, const std::string& data) : root(std::move(root)) {
    std::filesystem::create_directories(this->root);
    std::ofstream(this->root + "/data.jsonl") << data << "\n";
    context.data_root = this->root;
    context.epoch = 2;
    context.strands = &strands;
    context.disk = &disk;
    context.gate = &gate;
    context.store = &store;
    context.workers = &workers;
    context.clock = &clock;
    context.need = [](const std::string&, const NeedWorkers&) {};
    context.return_worker = [](const std::string&, const ReturnWorker&) {};
  }
  ~RestartedController() {
    gate.Close();
    strands.join();
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
  boost::asio::thread_pool strands{1}, disk{1};
  Gate gate;
  store::MemoryStore store;
  WorkerDirectory workers;
  RealClock clock;
  RuntimeContext context;
};

std::string EmptyRoot(const std::string& name) {
  const std::string root = testing::TempDir() + "/" + name;
  std::filesystem::remove_all(root);
  return root;
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

  absl::Notification heard;  // until then no file is read
  boost::asio::post(controller.disk, [&] { heard.WaitForNotification(); });
  const auto reward = std::make_shared<Recorder>();
  controller.workers.Set("reward-0", reward);
  const auto job = controller.Start(row);

  TaskRef ref;  // of the first controller: the second draw's second sample
  ref.kind = TaskKind::kGenerate;
  ref.subject = TrajectoryId(v1::PURPOSE_TRAIN, 1, 1, 2);
  ref.attempt = 1 << 8;
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
  store::v1::TrajectoryRow generated;
  generated.set_id(TrajectoryId(v1::PURPOSE_TRAIN, 0, 0, 1));
  generated.set_purpose(v1::PURPOSE_TRAIN);
  generated.set_step(1);
  generated.set_incarnation(1);
  generated.set_policy_version(1);
  generated.set_tokens(1);
  generated.set_file(at.file);
  generated.set_offset(at.offset);
  generated.set_size(at.size);

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

// Rank 0 writes into a folder that is made for it. A rank that comes back first after a restart
// must not begin: it would wait, within a collective, for one that may find no room.
TEST(JobRuntimeTest, RanksBeginToSaveWhenTheFolderStands) {
  RestartedController controller(EmptyRoot("ranks_save"), R"({"prompt": "1+1=", "response": "2"})");
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
  spec.mutable_actor()->mutable_parallel()->set_dp(2);
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
  for (const char* worker : {"actor-0", "actor-1"}) {
    store::v1::SlotRow& slot = *row.add_slots();
    slot.set_role("actor");
    slot.set_worker_id(worker);
    slot.set_ready(true);
  }

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

// The queue may answer on another thread before the turn that asked it is over.
TEST(JobRuntimeTest, AJobCanBeFoundWhenItsFirstEffectsLeave) {
  boost::asio::thread_pool strands(1), disk(1);
  Gate gate;
  store::MemoryStore store;
  WorkerDirectory workers;
  const RealClock clock;
  std::shared_ptr<JobRuntime> job;
  std::optional<bool> visible;
  RuntimeContext context;
  context.strands = &strands;
  context.disk = &disk;
  context.gate = &gate;
  context.store = &store;
  context.workers = &workers;
  context.clock = &clock;
  context.need = [&](const std::string&, const NeedWorkers&) { visible = job->visible(); };
  job = std::make_shared<JobRuntime>(&context, JobCore(QueuedJob(), 1, context.core), 1,
                                     /*stored=*/false);
  EXPECT_FALSE(job->visible());
  absl::Notification started;
  job->Start({}, [&] { started.Notify(); });
  started.WaitForNotification();
  gate.Close();
  strands.join();
  disk.join();
  EXPECT_EQ(visible, true);
}

// What a lost rollout said of its tokens goes on with them, for the distribution that they were
// sampled from as well: pieces without it were sampled from the full softmax.
TEST(JobRuntimeTest, AMovedResponseKeepsBothOfItsLogProbs) {
  RestartedController controller(EmptyRoot("moved_response"),
                                 R"({"prompt": "1+1=", "answer": "2"})");
  store::v1::JobRow row = RunningRow({"actor-0", "rollout-0", "rollout-1", "reward-0"});
  v1::JobSpec& spec = *row.mutable_job()->mutable_effective_spec();
  spec.mutable_data()->set_train_batch_size(2);
  spec.mutable_rollout()->set_n(1);
  spec.mutable_resources()->set_rollout_workers(2);
  const auto rollouts = std::make_shared<Recorder>();
  controller.workers.Set("rollout-0", rollouts);
  controller.workers.Set("rollout-1", rollouts);
  const auto job = controller.Start(row);

  TaskRef ref;
  ref.kind = TaskKind::kGenerate;
  ref.subject = TrajectoryId(v1::PURPOSE_TRAIN, 1, 0, 1);
  const std::string other = TrajectoryName(TrajectoryId(v1::PURPOSE_TRAIN, 0, 0, 1));
  ref.attempt = 1 << 8;
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
  piece(3, {-4}, {});
  job->Post(WorkerLost{"rollout-0", "the test takes it"});
  const v1::Generate again = rollouts->AwaitGenerate(TrajectoryName(ref.subject));
  EXPECT_THAT(again.resume_tokens(), testing::ElementsAre(7, 7, 7, 7));
  EXPECT_THAT(again.resume_log_probs(), testing::ElementsAre(-1, -2, -3, -4));
  EXPECT_THAT(again.resume_sampling_log_probs(), testing::ElementsAre(-1, -0.5, -0.25, -4));
}

}  // namespace
}  // namespace baton::controller
