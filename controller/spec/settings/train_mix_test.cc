#include "controller/spec/settings/train_mix.h"

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "controller/spec/job_spec/change_spec.h"
#include "controller/spec/job_spec/presets.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/controller/spec.h"

namespace baton::controller {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

// Two files and entries, 100 steps.
v1::JobSpec Mixed() {
  v1::JobSpec spec = ExampleSpec("grpo");
  spec.clear_dataflow();
  spec.clear_resources();
  spec.mutable_trainer()->set_total_training_steps(100);
  spec.mutable_data()->clear_train_files();
  for (const char* file : {"easy", "hard"}) {
    spec.mutable_data()->add_train_files(file);
    spec.mutable_data()->add_train_mix();
  }
  return spec;
}

v1::FileMixSpec* Entry(v1::JobSpec* spec, int index) {
  return spec->mutable_data()->mutable_train_mix(index);
}

TEST(TrainMixTest, DefaultsAreFilledIn) {
  v1::JobSpec spec = Mixed();
  Entry(&spec, 1)->set_weight(0.25);
  const CheckedSpec checked = CheckSpec(spec);
  EXPECT_THAT(checked.violations, IsEmpty());
  const v1::DataSpec& data = checked.effective.data();
  EXPECT_EQ(data.train_mix(0).weight(), 1);
  EXPECT_EQ(data.train_mix(0).from_step(), 1);
  EXPECT_FALSE(data.train_mix(0).has_to_step());
  EXPECT_EQ(data.train_mix(1).weight(), 0.25);
  EXPECT_THAT(Problems(checked.effective), IsEmpty());
}

TEST(TrainMixTest, EachFileHasAnEntry) {
  v1::JobSpec spec = Mixed();
  spec.mutable_data()->add_train_files("third");
  EXPECT_THAT(
      Problems(spec),
      ElementsAre(Pair("spec.data.train_mix",
                       AllOf(HasSubstr("has 2 entries"), HasSubstr("data.train_files 3 files")))));
  for (int i = 0; i < 63; ++i) spec.mutable_data()->add_train_mix();
  EXPECT_THAT(Problems(spec),
              ElementsAre(Pair("spec.data.train_mix", "has 65 entries, at most 64")));
}

TEST(TrainMixTest, NumbersAreWithinTheirBounds) {
  v1::JobSpec spec = Mixed();
  Entry(&spec, 0)->set_weight(0);
  Entry(&spec, 0)->set_from_step(0);
  Entry(&spec, 1)->set_weight(std::numeric_limits<double>::quiet_NaN());
  Entry(&spec, 1)->set_from_step(5);
  Entry(&spec, 1)->set_to_step(4);
  EXPECT_THAT(
      Problems(spec),
      ElementsAre(Pair("spec.data.train_mix[0].weight", "0 is not in [0.001, 1000]"),
                  Pair("spec.data.train_mix[0].from_step", "0 is not in [1, 1000000000]"),
                  Pair("spec.data.train_mix[1].weight", "nan is not a finite number"),
                  Pair("spec.data.train_mix[1].to_step", HasSubstr("4 is below from_step 5"))));
  spec = Mixed();
  Entry(&spec, 1)->set_to_step(0);
  EXPECT_THAT(Problems(spec),
              ElementsAre(Pair("spec.data.train_mix[1].to_step", "0 is not in [1, 1000000000]")));
}

TEST(TrainMixTest, EveryStepHasAFile) {
  v1::JobSpec spec = Mixed();
  Entry(&spec, 0)->set_to_step(40);
  Entry(&spec, 1)->set_from_step(41);
  EXPECT_THAT(Problems(spec), IsEmpty());
  Entry(&spec, 1)->set_from_step(43);
  EXPECT_THAT(Problems(spec),
              ElementsAre(Pair("spec.data.train_mix",
                               HasSubstr("no file is drawn from at step 41 of 100"))));
  Entry(&spec, 0)->set_from_step(2);
  Entry(&spec, 0)->clear_to_step();
  EXPECT_THAT(Problems(spec), ElementsAre(Pair("spec.data.train_mix", HasSubstr("at step 1 of"))));
  spec = Mixed();
  for (int i : {0, 1}) Entry(&spec, i)->set_to_step(99);
  EXPECT_THAT(Problems(spec),
              ElementsAre(Pair("spec.data.train_mix", HasSubstr("at step 100 of 100"))));
  Entry(&spec, 0)->set_to_step(100);
  EXPECT_THAT(Problems(spec), IsEmpty()) << "what comes after the last step is no matter";
}

TEST(TrainMixTest, RefusesAMixForOtherKinds) {
  v1::JobSpec spec = Mixed();
  spec.set_kind(v1::JOB_KIND_SFT);
  spec.clear_algorithm();
  spec.clear_reward();
  spec.clear_rollout();
  EXPECT_THAT(Problems(spec),
              testing::Contains(Pair("spec.data.train_mix", HasSubstr("is of kind rl"))));
}

TEST(TrainMixTest, PhasesBeginWhereAFileComesOrGoes) {
  v1::JobSpec spec = Mixed();
  spec.mutable_data()->add_train_files("third");
  spec.mutable_data()->add_train_mix();
  Entry(&spec, 0)->set_to_step(10);
  Entry(&spec, 1)->set_from_step(5);
  Entry(&spec, 1)->set_to_step(20);
  Entry(&spec, 2)->set_from_step(11);
  Entry(&spec, 2)->set_to_step(20);
  const std::vector<MixPhase> phases = PhasesOf(CheckSpec(spec).effective.data());
  ASSERT_THAT(phases, SizeIs(4));
  const std::vector<std::pair<int64_t, std::vector<int>>> expected = {
      {1, {0}}, {5, {0, 1}}, {11, {1, 2}}, {21, {}}};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(phases[i].from_step, expected[i].first);
    EXPECT_EQ(phases[i].files, expected[i].second);
  }
}

v1::Job SavedAt(const v1::JobSpec& spec, int64_t step) {
  const CheckedSpec checked = CheckSpec(spec);
  EXPECT_THAT(checked.violations, IsEmpty());
  v1::Job job;
  *job.mutable_spec() = spec;
  *job.mutable_effective_spec() = checked.effective;
  *job.mutable_dataflow() = checked.dataflow;
  job.set_step(step);
  return job;
}

TEST(TrainMixTest, AJobThatGoesOnForLongerDrawsFromItsLastFiles) {
  v1::JobSpec spec = Mixed();
  Entry(&spec, 0)->set_to_step(40);
  Entry(&spec, 1)->set_from_step(30);
  Entry(&spec, 1)->set_to_step(100);
  v1::JobSpec changes;
  changes.mutable_trainer()->set_total_training_steps(200);
  const ChangedJob changed = ChangeSpec(SavedAt(spec, 100), changes);
  EXPECT_THAT(changed.violations, IsEmpty());
  EXPECT_EQ(changed.effective_spec.data().train_mix(0).to_step(), 40);
  EXPECT_FALSE(changed.effective_spec.data().train_mix(1).has_to_step());
}

TEST(TrainMixTest, RefusesChangesToWhatThePromptCursorCounts) {
  v1::JobSpec changes;
  changes.mutable_data()->set_train_batch_size(64);
  changes.mutable_data()->add_train_mix()->set_weight(2);
  const v1::Job mixed = SavedAt(Mixed(), 10);
  const ChangedJob changed = ChangeSpec(mixed, changes);
  std::vector<std::string> fields;
  for (const v1::FieldViolation& v : changed.violations) fields.push_back(v.field());
  EXPECT_THAT(fields, testing::IsSupersetOf({"spec.data.train_mix", "spec.data.train_batch_size"}));
  changes.clear_data();
  changes.mutable_data()->set_train_batch_size(mixed.effective_spec().data().train_batch_size());
  EXPECT_THAT(ChangeSpec(mixed, changes).violations, IsEmpty()) << "it is what it was";
}

}  // namespace
}  // namespace baton::controller
