#include "controller/spec/job_spec/check_saved.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "controller/spec/dataflow/replay.h"
#include "controller/spec/job_spec/presets.h"
#include "controller/spec/job_spec/spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/controller/spec.h"

namespace baton::controller {
namespace {

using ::testing::HasSubstr;

v1::Job Accepted(const v1::JobSpec& spec) {
  CheckedSpec checked = CheckSpec(spec);
  EXPECT_TRUE(checked.violations.empty())
      << checked.violations[0].field() << ": " << checked.violations[0].description();
  v1::Job job;
  *job.mutable_spec() = spec;
  *job.mutable_effective_spec() = std::move(checked.effective);
  *job.mutable_dataflow() = std::move(checked.dataflow);
  return job;
}

v1::JobSpec Small(v1::JobKind kind) {
  v1::JobSpec spec;
  spec.set_kind(kind);
  spec.mutable_model()->mutable_init()->set_characters("01");
  spec.mutable_data()->add_train_files("t");
  spec.mutable_trainer()->set_total_training_steps(5);
  if (kind == v1::JOB_KIND_RL) spec.mutable_reward()->add_rules()->set_type("numeric");
  return spec;
}

// A spec that was accepted is never refused when it comes back from a checkpoint or the store.
TEST(CheckSavedTest, EverySpecThatIsAcceptedIsGoodWhenItIsSaved) {
  std::vector<v1::JobSpec> specs = {Small(v1::JOB_KIND_RL), Small(v1::JOB_KIND_SFT),
                                    Small(v1::JOB_KIND_REWARD_MODEL), PpoWithoutResources()};
  for (const Preset& preset : Presets()) {
    specs.push_back(ExampleSpec(preset.name));
    specs.push_back(ExampleSpec(preset.name));
    specs.back().clear_dataflow();
  }
  for (const char* placement : {"separate", "colocate", "split"}) {
    specs.push_back(PpoWithoutResources());
    specs.back().mutable_resources()->set_placement(placement);
  }
  specs.push_back(Small(v1::JOB_KIND_RL));
  specs.back().mutable_algorithm()->set_mode("async");
  specs.push_back(Small(v1::JOB_KIND_RL));
  specs.back().mutable_actor()->mutable_parallel()->set_tp(2);
  AddPool(&specs.back(), {"actor", "rollout"});
  int compared = 0;
  for (const v1::JobSpec& spec : specs) {
    if (!CheckSpec(spec).violations.empty()) continue;  // an example without its model's name
    ++compared;
    EXPECT_EQ(ProblemOfSaved(Accepted(spec)), "") << spec.ShortDebugString();
  }
  EXPECT_GE(compared, 20);
}

TEST(CheckSavedTest, AReplayIsGoodAndItsGraphFollowsFromItsSpec) {
  store::v1::JobRow row;
  *row.mutable_job() = Accepted(PpoWithoutResources());
  MakeReplay(3, &row);
  EXPECT_EQ(ProblemOfSaved(row.job()), "");
  row.mutable_job()->mutable_dataflow()->add_update()->set_role("cost_critic");
  EXPECT_THAT(ProblemOfSaved(row.job()), HasSubstr("dataflow"));
}

TEST(CheckSavedTest, RefusesInvalidValuesInASavedSpec) {
  using Change = std::function<void(v1::Job&)>;
  const std::vector<std::pair<std::string, Change>> changes = {
      {"spec.resources.rollout_workers",
       [](v1::Job& job) {
         job.mutable_effective_spec()->mutable_resources()->set_rollout_workers(2'000'000'000);
       }},
      {"spec.resources.rollout_workers",
       [](v1::Job& job) {
         job.mutable_effective_spec()->mutable_resources()->set_rollout_workers(-1);
       }},
      {"spec.resources.reward_workers",
       [](v1::Job& job) {
         job.mutable_effective_spec()->mutable_resources()->set_reward_workers(-7);
       }},
      {"spec.actor.parallel.tp",
       [](v1::Job& job) {
         job.mutable_effective_spec()->mutable_actor()->mutable_parallel()->set_tp(1 << 30);
       }},
      {"spec.data.pretrain_batch_size",
       [](v1::Job& job) {
         v1::DataSpec* data = job.mutable_effective_spec()->mutable_data();
         data->add_pretrain_files("p");
         data->set_pretrain_batch_size(2'000'000'000);
       }},
      {"spec.data.gen_batch_size",
       [](v1::Job& job) { job.mutable_effective_spec()->mutable_data()->set_gen_batch_size(-5); }},
      {"spec.dataflow.score[",
       [](v1::Job& job) {
         v1::ScoreNode* node = job.mutable_dataflow()->add_score();
         node->set_node("x");
         node->set_role("rollout");
       }},
      {"spec.dataflow.update", [](v1::Job& job) { job.mutable_dataflow()->clear_update(); }},
      {"spec.dataflow.update",
       [](v1::Job& job) {
         for (int i = 0; i < 100; ++i)
           *job.mutable_dataflow()->add_update() = job.dataflow().update(0);
       }},
      {"more problems",
       [](v1::Job& job) {
         job.mutable_effective_spec()->clear_model();
         job.mutable_effective_spec()->mutable_data()->clear_train_files();
       }},
      {"spec: has",
       [](v1::Job& job) {
         job.mutable_effective_spec()->mutable_model()->mutable_init()->set_characters(
             std::string(size_t{17} << 20, 'x'));
       }},
  };
  for (const auto& [problem, change] : changes) {
    v1::Job job = Accepted(Small(v1::JOB_KIND_RL));
    change(job);
    EXPECT_THAT(ProblemOfSaved(job), HasSubstr(problem));
  }
}

// Kinds without a graph of the user's have the graph that follows from the spec.
TEST(CheckSavedTest, TheGraphOfAnotherKindIsRefused) {
  v1::Job job = Accepted(Small(v1::JOB_KIND_SFT));
  *job.mutable_dataflow() = Accepted(PpoWithoutResources()).dataflow();
  EXPECT_THAT(ProblemOfSaved(job), HasSubstr("dataflow: is not the one"));
}

}  // namespace
}  // namespace baton::controller
