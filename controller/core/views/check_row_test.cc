#include "controller/core/views/check_row.h"

#include <functional>
#include <limits>

#include "controller/core/loop/job_core.h"
#include "controller/spec/job_spec/spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using ::testing::HasSubstr;
using Job = v1::Job;

store::v1::JobRow RunningRow() {
  v1::JobSpec spec;
  spec.set_kind(v1::JOB_KIND_RL);
  spec.mutable_model()->mutable_init()->set_characters("01");
  spec.mutable_data()->add_train_files("t");
  spec.mutable_data()->add_val_files("v");
  spec.mutable_data()->set_train_batch_size(2);
  spec.mutable_trainer()->set_total_training_steps(5);
  spec.mutable_trainer()->set_val_before_train(true);
  spec.mutable_reward()->add_rules()->set_type("numeric");
  const CheckedSpec checked = CheckSpec(spec);
  EXPECT_TRUE(checked.violations.empty());
  v1::Job job;
  job.set_name("projects/default/jobs/j");
  *job.mutable_effective_spec() = checked.effective;
  *job.mutable_dataflow() = checked.dataflow;
  store::v1::JobRow row = JobCore(job, 1, {}).Row();
  row.mutable_job()->set_state(Job::STATE_RUNNING);
  row.mutable_job()->set_revision(1);
  row.mutable_job()->set_policy_version(1);
  row.set_published_version(1);
  for (store::v1::SlotRow& slot : *row.mutable_slots()) {
    slot.set_worker_id(slot.role() + "-1");
    slot.set_ready(true);
    slot.set_credits(4);
  }
  return row;
}

void AddOpenPrompt(uint64_t first_uid, store::v1::JobRow* row) {
  store::v1::OpenPrompts* open = row->add_open_prompts();
  open->set_first_uid(first_uid);
  open->set_count(1);
  open->set_per_prompt(1);
}

// Adds a group of three trajectories that has given up these samples.
void AddPromptWithout(std::initializer_list<uint32_t> samples, store::v1::JobRow* row) {
  row->set_next_trajectory_uid(20);
  AddOpenPrompt(1, row);
  row->mutable_open_prompts(0)->set_per_prompt(3);
  for (const uint32_t sample : samples) row->mutable_open_prompts(0)->add_given_up(sample);
}

TEST(CheckRowTest, AGroupMayHaveGivenUpSomeResponses) {
  store::v1::JobRow row = RunningRow();
  AddPromptWithout({0, 2}, &row);
  EXPECT_TRUE(CheckRow(row).ok()) << CheckRow(row);
}

TEST(CheckRowTest, AcceptsARowWrittenByAJobCore) {
  EXPECT_TRUE(CheckRow(RunningRow()).ok()) << CheckRow(RunningRow());
  EXPECT_TRUE(CheckRow(JobCore(RunningRow(), {}, 2, {}).Row()).ok());
}

TEST(CheckRowTest, OnlyAJobThatOnlyEvaluatesHasNoSteps) {
  store::v1::JobRow row = RunningRow();
  row.mutable_job()->set_total_steps(0);
  EXPECT_THAT(std::string(CheckRow(row).message()), HasSubstr("total_steps"));
  v1::TrainerSpec* trainer = row.mutable_job()->mutable_effective_spec()->mutable_trainer();
  trainer->clear_total_training_steps();
  trainer->set_val_only(true);
  EXPECT_TRUE(CheckRow(row).ok()) << CheckRow(row);
}

TEST(CheckRowTest, ARoleThatScoresOnSeveralRanksHasAGroupWithoutCommands) {
  v1::JobSpec spec = RunningRow().job().effective_spec();
  spec.mutable_algorithm()->set_use_kl_loss(true);
  spec.mutable_reference()->mutable_parallel()->set_tp(2);
  const CheckedSpec checked = CheckSpec(spec);
  ASSERT_TRUE(checked.violations.empty());
  v1::Job job;
  job.set_name("projects/default/jobs/j");
  *job.mutable_effective_spec() = checked.effective;
  *job.mutable_dataflow() = checked.dataflow;
  store::v1::JobRow row = JobCore(job, 1, {}).Row();
  ASSERT_EQ(row.groups_size(), 2);
  EXPECT_EQ(row.groups(1).role(), "reference");
  EXPECT_TRUE(CheckRow(row).ok()) << CheckRow(row);
  row.mutable_groups(1)->mutable_command()->set_kind(static_cast<int>(TaskKind::kUpdate));
  EXPECT_THAT(CheckRow(row).message(), HasSubstr("no command of the group of role reference"));
  row.mutable_groups()->RemoveLast();
  EXPECT_THAT(CheckRow(row).message(), HasSubstr("groups: 1 groups"));
}

TEST(CheckRowTest, RefusesAnInvalidRowAndNamesTheField) {
  using Change = std::function<void(store::v1::JobRow&)>;
  const std::vector<std::pair<std::string, Change>> changes = {
      {"spent.first",
       [](auto& row) {
         row.add_spent()->set_last(3);
         row.add_spent()->set_first(4);  // it touches the one before it
       }},
      {"spent.last", [](auto& row) { row.add_spent()->set_first(4); }},
      {"open_prompts.prompt_index",
       [](auto& row) {
         row.add_spent()->set_last(3);
         row.set_next_trajectory_uid(9);
         AddOpenPrompt(1, &row);  // prompt index 0
       }},
      {"open_prompts.first_uid", [](auto& row) { AddOpenPrompt(9, &row); }},
      {"open_prompts.count",
       [](auto& row) {
         row.set_next_trajectory_uid(9);
         AddOpenPrompt(1, &row);
         row.mutable_open_prompts(0)->set_count(uint64_t{1} << 40);
       }},
      {"open_prompts.count",  // each is within its bound, but their sum is not
       [](auto& row) {
         row.set_next_trajectory_uid(uint64_t{1} << 40);
         for (uint64_t i = 0; i < 3; ++i) {
           AddOpenPrompt(1, &row);
           store::v1::OpenPrompts* open = row.mutable_open_prompts(row.open_prompts_size() - 1);
           open->set_prompt_index(i << 16);
           open->set_count(uint64_t{1} << 16);
         }
       }},
      {"open_prompts.given_up", [](auto& row) { AddPromptWithout({7}, &row); }},  // no such sample
      {"open_prompts.given_up",
       [](auto& row) {
         AddPromptWithout({1, 1}, &row);
       }},
      {"open_prompts.given_up",
       [](auto& row) {
         AddPromptWithout({2, 1}, &row);
       }},
      {"open_prompts.given_up",
       [](auto& row) {
         AddPromptWithout({0, 1, 2}, &row);
       }},                    // none is left
      {"open_prompts.count",  // given_up needs a row of one group
       [](auto& row) {
         AddPromptWithout({1}, &row);
         row.mutable_open_prompts(0)->set_count(2);
       }},
      {"evaluation.version", [](auto& row) { row.mutable_evaluation()->set_version(2); }},
      {"evaluation.step", [](auto& row) { row.mutable_evaluation()->set_step(1); }},
      {"evaluation.trajectory_count",
       [](auto& row) { row.mutable_evaluation()->set_trajectory_count(3); }},
      {"oldest_serial", [](auto& row) { row.set_oldest_serial(99); }},
      {"published_version", [](auto& row) { row.set_published_version(2); }},
      {"name", [](auto& row) { row.mutable_job()->set_name("j"); }},
      {"kind", [](auto& row) { row.mutable_job()->mutable_effective_spec()->clear_kind(); }},
      {"train_batch_size",
       [](auto& row) { row.mutable_job()->mutable_effective_spec()->clear_data(); }},
      {"rollout.n",
       [](auto& row) { row.mutable_job()->mutable_effective_spec()->clear_rollout(); }},
      {"priority",
       [](auto& row) {
         row.mutable_job()->mutable_effective_spec()->set_priority(std::numeric_limits<int>::min());
       }},
      {"state", [](auto& row) { row.mutable_job()->set_state(static_cast<Job::State>(77)); }},
      {"state", [](auto& row) { row.mutable_job()->clear_state(); }},
      {"stopping_as",
       [](auto& row) {
         row.mutable_job()->set_state(Job::STATE_STOPPING);
         row.set_stopping_as(Job::STATE_RUNNING);
       }},
      {"step", [](auto& row) { row.mutable_job()->set_step(6); }},
      {"step", [](auto& row) { row.mutable_job()->set_step(-1); }},
      {"saved_step", [](auto& row) { row.set_saved_step(1); }},
      {"evaluated_step", [](auto& row) { row.set_evaluated_step(1); }},
      {"lost_groups", [](auto& row) { row.set_lost_groups(~uint64_t{0}); }},
      {"filtered_groups", [](auto& row) { row.set_filtered_groups(~uint64_t{0}); }},
      {"first_serial",
       [](auto& row) { row.add_kept_steps()->set_first_serial(uint64_t{1} << 50); }},
      {"kept_steps.step",
       [](auto& row) { row.add_kept_steps()->set_step(std::numeric_limits<int64_t>::max()); }},
      {"spec.resources.rollout_workers",
       [](auto& row) {
         row.mutable_job()->mutable_effective_spec()->mutable_resources()->set_rollout_workers(
             2'000'000'000);
       }},
      {"spec.dataflow.update",
       [](auto& row) { row.mutable_job()->mutable_dataflow()->clear_update(); }},
      {"kept_steps.files", [](auto& row) { row.add_kept_steps()->add_files(); }},
      {"kept_steps.files",
       [](auto& row) {
         row.add_kept_steps()->add_files()->set_first(4);
         row.mutable_kept_steps(0)->mutable_files(0)->set_last(3);
       }},
      {"saved_version", [](auto& row) { row.set_saved_version(99); }},
      {"versions.version", [](auto& row) { row.add_versions()->set_version(99); }},
      {"versions.parent",
       [](auto& row) {
         row.mutable_job()->set_policy_version(9);
         row.clear_versions();
         row.add_versions()->set_version(8);
         row.mutable_versions(0)->set_parent(8);
       }},
      {"next_trajectory_uid", [](auto& row) { row.set_next_trajectory_uid(~uint64_t{0}); }},
      {"slots", [](auto& row) { row.clear_slots(); }},
      {"slots.credits", [](auto& row) { row.mutable_slots(1)->set_credits(0); }},
      {"do not share", [](auto& row) { row.mutable_slots(1)->set_worker_id("actor-1"); }},
      {"QUEUED", [](auto& row) { row.mutable_job()->set_state(Job::STATE_QUEUED); }},
      {"groups.command.kind",
       [](auto& row) {
         row.mutable_groups(0)->mutable_command()->set_kind(static_cast<int>(TaskKind::kScore));
       }},
  };
  for (const auto& [field, change] : changes) {
    store::v1::JobRow row = RunningRow();
    change(row);
    const absl::Status status = CheckRow(row);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << field;
    EXPECT_THAT(std::string(status.message()), HasSubstr(field));
  }
}

// A trajectory generated for one prompt is not taken for another prompt's, for example when the
// data files have changed or the row is damaged. Nor is one of another evaluation.
TEST(RestoredTrajectoryTest, IgnoresARowOfAnotherPromptOrEvaluation) {
  struct Case {
    uint64_t prompt, trajectory_uid;
  };
  for (const auto& [prompt, trajectory_uid] : {Case{0, 5}, Case{1000, 5}, Case{0, 4}, Case{0, 7}}) {
    store::v1::TrajectoryRow kept;
    kept.set_id(TrajectoryId(v1::PURPOSE_EVAL, 0, 0, 1));
    kept.set_purpose(v1::PURPOSE_EVAL);
    kept.set_incarnation(1);
    kept.set_policy_version(1);
    kept.set_trajectory_uid(trajectory_uid);
    kept.set_prompt_id(prompt);
    kept.set_scored_nodes(1);
    store::v1::JobRow row = RunningRow();
    row.mutable_evaluation()->set_version(1);
    row.mutable_evaluation()->set_first_uid(5);
    row.mutable_evaluation()->set_trajectory_count(2);
    row.set_next_trajectory_uid(8);
    JobCore core(row, {{1, kept}}, 2, {});
    const absl::Time now = absl::UnixEpoch() + absl::Hours(1);
    core.Start(now);
    DataLoaded loaded;
    loaded.train_size = 4;
    loaded.val_sources = {"", ""};
    loaded.val_size = 2;
    core.Handle(loaded, now);
    const TrajectoryInfo* trajectory = core.Find(kept.id());
    ASSERT_NE(trajectory, nullptr);
    EXPECT_EQ(trajectory->prompt_id, 0u);
    EXPECT_EQ(trajectory->state == TrajectoryState::kReady, prompt == 0 && trajectory_uid == 5);
  }
}

}  // namespace
}  // namespace baton::controller
