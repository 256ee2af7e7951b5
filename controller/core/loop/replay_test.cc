#include "controller/spec/dataflow/replay.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/core/loop/job_core.h"
#include "controller/spec/dataflow/role_needs.h"
#include "controller/spec/dataflow/roles.h"
#include "controller/spec/job_spec/spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;

std::string Chosen(const Kept& kept, std::optional<int64_t> from, std::optional<int64_t> to) {
  const auto range = ChooseReplay(kept, from, to);
  if (!range.ok()) return std::string(range.status().message());
  return absl::StrCat(range->from, "-", range->to, range->compares ? " compared" : "");
}

TEST(ChooseReplay, ReplaysAllStepsIfEverythingIsKept) {
  const Kept all = {6, {1, 2, 3, 4, 5, 6}, {2, 4, 6}};
  EXPECT_EQ(Chosen(all, {}, {}), "0-6 compared");
  EXPECT_EQ(Chosen(all, 2, {}), "2-6 compared");
  EXPECT_EQ(Chosen(all, {}, 4), "0-4 compared");
  EXPECT_EQ(Chosen(all, {}, 5), "0-5");
  EXPECT_EQ(Chosen(all, 4, 5), "4-5");
  EXPECT_THAT(Chosen(all, 3, {}), HasSubstr("the weights after step 3 are not kept"));
  EXPECT_THAT(Chosen(all, 3, {}), HasSubstr("checkpoints of steps 2, 4, 6"));
  EXPECT_THAT(Chosen(all, 4, 4), HasSubstr("from_step 4 is not in [0, 3]"));
  EXPECT_THAT(Chosen(all, {}, 7), HasSubstr("to_step 7: the job has done steps 1 to 6"));
  EXPECT_THAT(Chosen(all, {}, 0), HasSubstr("to_step 0"));
  EXPECT_THAT(Chosen(all, -1, {}), HasSubstr("from_step -1"));
}

TEST(ChooseReplay, StartsAtTheFirstCheckpointWithAllLaterStepsKept) {
  // As with keep_experience: needed.
  const Kept newest = {9, {4, 5, 6, 7, 8, 9}, {2, 3, 6, 8}};
  EXPECT_EQ(Chosen(newest, {}, {}), "3-8 compared");
  EXPECT_EQ(Chosen(newest, {}, 9), "3-9");
  EXPECT_EQ(Chosen(newest, 6, {}), "6-8 compared");
  EXPECT_THAT(Chosen(newest, 2, {}), HasSubstr("there is no checkpoint that a replay can reach"));
  EXPECT_THAT(Chosen(newest, 2, 9), HasSubstr("not all of steps 3-9 are kept"));
  EXPECT_THAT(Chosen(newest, 0, {}), HasSubstr("the weights after step 0 are not kept"));
  EXPECT_THAT(Chosen(newest, {}, 3), HasSubstr("no weights are kept from which step 3"));
  EXPECT_THAT(Chosen(newest, {}, 3), HasSubstr("batches and responses of steps 4-9"));
  // A gap: steps after it cannot be replayed from a checkpoint before it.
  const Kept gap = {9, {1, 2, 4, 5}, {2, 3, 5}};
  EXPECT_EQ(Chosen(gap, {}, {}), "3-5 compared");
  EXPECT_EQ(Chosen(gap, {}, 2), "0-2 compared");
  EXPECT_THAT(Chosen({1, {}, {}}, {}, {}),
              HasSubstr("Kept are the batches and responses of no step"));
}

// As of a job that succeeded with trainer.keep_optimizer: newest.
TEST(ChooseReplay, BeginsWithNoCheckpointThatHasWeightsOnly) {
  const Kept newest = {9, {4, 5, 6, 7, 8, 9}, {3, 6, 9}, /*weights_only=*/{3, 6}};
  EXPECT_THAT(Chosen(newest, {}, {}), HasSubstr("there is no checkpoint that a replay can reach"));
  EXPECT_THAT(Chosen(newest, 6, {}), HasSubstr("the weights after step 6 are not kept"));
  const Kept all = {6, {1, 2, 3, 4, 5, 6}, {2, 4, 6}, {2, 4}};
  EXPECT_EQ(Chosen(all, {}, {}), "0-6 compared");
  EXPECT_EQ(Chosen(all, {}, 4), "0-4 compared") << "the weights are there";
}

TEST(ChooseReplay, RefusesAJobWithoutACompletedStep) {
  for (const std::optional<int64_t> from : {std::optional<int64_t>(), std::optional<int64_t>(0)}) {
    for (const std::optional<int64_t> to : {std::optional<int64_t>(), std::optional<int64_t>(1)}) {
      const auto range = ChooseReplay({0, {}, {}}, from, to);
      EXPECT_TRUE(absl::IsFailedPrecondition(range.status())) << range.status();
      EXPECT_THAT(std::string(range.status().message()),
                  AllOf(HasSubstr("has completed no step"), HasSubstr("once it has completed one"),
                        Not(HasSubstr("steps 1 to 0"))));
    }
  }
}

TEST(StepsText, WritesConsecutiveStepsAsRanges) {
  EXPECT_EQ(StepsText({}), "no step");
  EXPECT_EQ(StepsText({4}), "step 4");
  EXPECT_EQ(StepsText({1, 2, 3, 7, 9, 10}), "steps 1-3, 7, 9-10");
}

// A ppo job with a critic, a reference and baselines of its own, on shared workers.
v1::Job Source() {
  v1::JobSpec spec;
  spec.set_kind(v1::JOB_KIND_RL);
  spec.mutable_model()->mutable_init()->set_characters("0123456789+=");
  spec.mutable_data()->add_train_files("train.jsonl");
  spec.mutable_data()->add_train_mix();
  spec.mutable_data()->add_val_files("val.jsonl");
  spec.mutable_data()->set_train_batch_size(1);
  spec.mutable_data()->set_max_response_length(4);
  spec.mutable_rollout()->set_n(2);
  spec.mutable_reward()->add_rules()->set_type("exact_match");
  spec.mutable_reference();
  spec.mutable_algorithm()->set_preset("ppo");
  spec.mutable_trainer()->set_total_training_steps(9);
  spec.mutable_trainer()->set_test_freq(1);
  const CheckedSpec checked = CheckSpec(spec);
  EXPECT_THAT(checked.violations, IsEmpty());
  v1::Job job;
  job.set_name("projects/default/jobs/replay");
  *job.mutable_spec() = spec;
  *job.mutable_effective_spec() = checked.effective;
  *job.mutable_dataflow() = checked.dataflow;
  return job;
}

store::v1::JobRow RowOfReplay(int64_t to_step) {
  store::v1::JobRow row = JobCore(Source(), 1, {}).Row();
  MakeReplay(to_step, &row);
  return row;
}

TEST(MakeReplay, LeavesOnlyTheRolesThatTrain) {
  const store::v1::JobRow row = RowOfReplay(2);
  const v1::Job& job = row.job();
  EXPECT_TRUE(Replays(job.dataflow()));
  EXPECT_FALSE(Replays(Source().dataflow()));
  EXPECT_THAT(WorkersOf(job.effective_spec(), job.dataflow()),
              ElementsAre(Pair("actor", 1), Pair("critic", 1)));
  const RoleNeeds needs = RoleNeedsOf(job.effective_spec(), job.dataflow(), {});
  ASSERT_EQ(needs.size(), 2u);
  EXPECT_EQ(needs.at("actor").methods.count("publish"), 0u);
  EXPECT_EQ(job.total_steps(), 2);
  EXPECT_EQ(job.effective_spec().trainer().total_training_steps(), 9) << "schedules depend on it";
  EXPECT_EQ(row.groups_size(), 2);
  EXPECT_TRUE(absl::IsFailedPrecondition(CheckReplayable(job)));
  EXPECT_TRUE(CheckReplayable(Source()).ok());
}

const std::map<uint64_t, store::v1::TrajectoryRow> kNoRows;

// A replay with its two workers, driven event by event.
class ReplayTest : public ::testing::Test {
 protected:
  explicit ReplayTest()
      : core_(std::make_unique<JobCore>(RowOfReplay(2), kNoRows, 1, JobCoreOptions())) {}

  void Send(const Event& event) { Take(core_->Handle(event, now_ += absl::Seconds(1))); }

  void Take(const Effects& effects) {
    for (const Effect& effect : effects) all_.push_back(effect);
    for (const Effect& effect : effects) {
      if (const auto* start = std::get_if<StartTask>(&effect)) tasks_.push_back(*start);
    }
  }

  // The newest effect of that type; it is taken away.
  template <typename T>
  std::optional<T> Newest() {
    for (auto it = all_.rbegin(); it != all_.rend(); ++it) {
      if (T* found = std::get_if<T>(&*it)) {
        T out = *found;
        all_.clear();
        return out;
      }
    }
    return std::nullopt;
  }

  void AnswerTasks(TaskKind kind) {
    for (const StartTask& task : std::exchange(tasks_, {})) {
      EXPECT_EQ(task.ref.kind, kind) << MethodName(task.ref.kind);
      Send(TaskDone{task.worker, task.ref, absl::OkStatus()});
    }
  }

  void SetUp() override {
    Take(core_->Start(now_));
    Send(WorkerGranted{"a", "actor", {}});
    Send(WorkerGranted{"c", "critic", {}});
    AnswerTasks(TaskKind::kAssignRole);
    Send(DataLoaded{absl::OkStatus()});
  }

  BatchBuilt Built(const BuildBatch& ask) const {
    BatchBuilt built;
    built.step = ask.step;
    built.incarnation = ask.incarnation;
    built.size = 2;
    for (uint32_t sample = 0; sample < 2; ++sample) {
      TrajectoryInfo info;
      info.id = TrajectoryId(v1::PURPOSE_TRAIN, 5, sample, 2);
      info.prompt_index = 5;
      info.sample = sample;
      info.state = TrajectoryState::kReady;
      info.tokens = 3;
      info.scores = {{"reward", sample}};
      built.replayed.push_back(info);
    }
    return built;
  }

  absl::Time now_ = absl::UnixEpoch();
  std::unique_ptr<JobCore> core_;
  std::vector<Effect> all_;
  std::vector<StartTask> tasks_;
};

TEST_F(ReplayTest, TrainsOnEachRecordedBatchAndSavesTheLastStep) {
  for (int64_t step = 1; step <= 2; ++step) {
    const auto ask = Newest<BuildBatch>();
    ASSERT_TRUE(ask.has_value()) << core_->Explain(now_).DebugString();
    EXPECT_EQ(ask->step, step);
    EXPECT_EQ(ask->recorded, Recorded::kReplay);
    EXPECT_THAT(ask->trajectories, IsEmpty()) << "the row names them";
    Send(Built(*ask));
    EXPECT_FALSE(Newest<PutBatch>().has_value()) << "the row is there";
    EXPECT_EQ(tasks_.size(), 2u);
    AnswerTasks(TaskKind::kUpdate);
    EXPECT_EQ(core_->step(), step);
    EXPECT_EQ(core_->Brief().metrics().at("critic/score/mean"), 0.5);
  }
  EXPECT_EQ(tasks_.size(), 2u);
  AnswerTasks(TaskKind::kSaveCheckpoint);
  const auto commit = Newest<CommitCheckpoint>();
  ASSERT_TRUE(commit.has_value());
  CheckpointCommitted committed;
  committed.incarnation = commit->incarnation;
  committed.checkpoint.set_step(2);
  Send(committed);
  AnswerTasks(TaskKind::kReleaseRole);
  EXPECT_EQ(core_->state(), v1::Job::STATE_SUCCEEDED);
}

TEST_F(ReplayTest, FailsOnAnotherBatchAndOnALostResponse) {
  const auto ask = Newest<BuildBatch>();
  ASSERT_TRUE(ask.has_value());
  EXPECT_THAT(core_->Explain(now_).DebugString(), HasSubstr("the controller to build its batch"));
  Send(PayloadLost{{{1, 0}}, "wrong checksum in 00000001.log at 0"});
  EXPECT_EQ(core_->state(), v1::Job::STATE_STOPPING);
  EXPECT_THAT(core_->Brief().error().message(),
              HasSubstr("step 1 cannot be replayed: wrong checksum"));
}

// The rollback drops no row, however often: the batches are the replay's input.
TEST_F(ReplayTest, ALostTrainerGoesBackAndTrainsOnTheSameRows) {
  auto ask = Newest<BuildBatch>();
  ASSERT_TRUE(ask.has_value());
  std::string worker = "a";
  for (uint64_t lost = 1; lost <= 3; ++lost) {
    const uint64_t incarnation = ask->incarnation;
    Send(Built(*ask));
    AnswerTasks(TaskKind::kUpdate);
    ASSERT_EQ(core_->step(), 1);
    all_.clear();
    Send(WorkerLost{worker, "its lease ran out"});
    for (const Effect& effect : all_) {
      EXPECT_FALSE(std::holds_alternative<DropBatches>(effect)) << lost;
      EXPECT_FALSE(std::holds_alternative<DropTrajectories>(effect)) << lost;
    }
    EXPECT_EQ(core_->step(), 0);
    worker = absl::StrCat("b", lost);
    Send(WorkerGranted{worker, "actor", {}});
    AnswerTasks(TaskKind::kAssignRole);
    ask = Newest<BuildBatch>();
    ASSERT_TRUE(ask.has_value()) << core_->Explain(now_).DebugString();
    EXPECT_EQ(ask->step, 1);
    EXPECT_EQ(ask->incarnation, incarnation + 1);
  }
}

// A restart in the middle of an update: the batch is read again, and the ranks get their command.
TEST_F(ReplayTest, ARestartBuildsTheBatchOfTheUpdateAgain) {
  const auto first = Newest<BuildBatch>();
  ASSERT_TRUE(first.has_value());
  Send(Built(*first));
  ASSERT_EQ(tasks_.size(), 2u);
  store::v1::JobRow row = core_->Row();
  core_ = std::make_unique<JobCore>(std::move(row), kNoRows, 2, JobCoreOptions());
  all_.clear();
  const std::vector<StartTask> sent = std::exchange(tasks_, {});
  Take(core_->Start(now_));
  for (const StartTask& task : sent) {
    Send(WorkerReconnected{task.worker, {{task.args.role, 1}}, {task.ref}, {}});
  }
  Send(DataLoaded{absl::OkStatus()});
  const auto again = Newest<BuildBatch>();
  ASSERT_TRUE(again.has_value()) << core_->Explain(now_).DebugString();
  EXPECT_EQ(again->recorded, Recorded::kReplay);
  Send(Built(*again));
  for (const StartTask& task : sent) {
    Send(TaskDone{task.worker, task.ref, absl::OkStatus()});
  }
  EXPECT_EQ(core_->step(), 1);
}

}  // namespace
}  // namespace baton::controller
