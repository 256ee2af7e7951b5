#include "controller/spec/settings/training_length.h"

#include <string>
#include <vector>

#include "controller/spec/job_spec/spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::JobSpec Spec() {
  v1::JobSpec spec;
  spec.set_kind(v1::JOB_KIND_RL);
  spec.mutable_model()->mutable_init()->set_characters("0123456789");
  spec.mutable_data()->add_train_files("a.jsonl");
  spec.mutable_reward()->add_rules()->set_type("numeric");
  return spec;
}

std::vector<std::string> ProblemsOf(const std::vector<v1::FieldViolation>& violations) {
  std::vector<std::string> out;
  for (const v1::FieldViolation& v : violations) out.push_back(v.field() + ": " + v.description());
  return out;
}

std::vector<std::string> ProblemsOf(const v1::JobSpec& spec) {
  return ProblemsOf(CheckSpec(spec).violations);
}

// The steps of so many epochs over so many examples; -1: refused.
int64_t StepsOf(int epochs, int batch, uint64_t examples) {
  v1::JobSpec spec = Spec();
  spec.mutable_trainer()->set_total_epochs(epochs);
  spec.mutable_data()->set_train_batch_size(batch);
  CheckedSpec checked = CheckSpec(spec);
  EXPECT_THAT(ProblemsOf(checked.violations), IsEmpty());
  EXPECT_FALSE(checked.effective.trainer().has_total_training_steps()) << "nothing is counted yet";
  Violations found;
  FillSteps(examples, &checked.effective, &found);
  if (found.size() > 0) return -1;
  EXPECT_FALSE(checked.effective.trainer().has_total_epochs()) << "the steps say it from here on";
  // What is written down can be submitted again.
  EXPECT_THAT(ProblemsOf(checked.effective), IsEmpty());
  return checked.effective.trainer().total_training_steps();
}

TEST(TrainingLengthTest, EpochsBecomeTheStepsThatDrawEachExampleSoOften) {
  EXPECT_EQ(StepsOf(1, 4, 8), 2);
  EXPECT_EQ(StepsOf(3, 4, 8), 6);
  EXPECT_EQ(StepsOf(1, 4, 9), 3) << "the last batch is filled from the next epoch";
  EXPECT_EQ(StepsOf(2, 4, 9), 5) << "18 examples, with no gap between the epochs";
  EXPECT_EQ(StepsOf(1, 32, 3), 1);
  EXPECT_EQ(StepsOf(15, 1024, 7473), 110) << "15 * 7473 / 1024 = 109.5";
  EXPECT_EQ(StepsOf(1, 1, 10'000'000), 10'000'000);
  EXPECT_EQ(StepsOf(1, 1, 10'000'001), -1);
  EXPECT_EQ(StepsOf(1, 1, 0), -1);
}

TEST(TrainingLengthTest, StepsAndEpochsDoNotGoTogether) {
  v1::JobSpec spec = Spec();
  EXPECT_THAT(ProblemsOf(spec),
              ElementsAre(HasSubstr("spec.trainer.total_training_steps: is missing; give the "
                                    "number of steps to train, or trainer.total_epochs")));
  spec.mutable_trainer()->set_total_training_steps(3);
  EXPECT_THAT(ProblemsOf(spec), IsEmpty());
  spec.mutable_trainer()->set_total_epochs(2);
  EXPECT_THAT(ProblemsOf(spec), ElementsAre("spec.trainer.total_epochs: is given beside "
                                            "trainer.total_training_steps; give one of them"));
}

TEST(TrainingLengthTest, EpochsNeedOneListOfFilesAndStepsOfOneSize) {
  v1::JobSpec spec = Spec();
  spec.mutable_trainer()->set_total_epochs(2);
  spec.mutable_algorithm()->set_preset("dapo");
  EXPECT_THAT(ProblemsOf(spec), ElementsAre(HasSubstr("algorithm.dynamic_sampling")));
  spec.mutable_algorithm()->set_preset("grpo");
  spec.mutable_data()->add_train_mix();
  EXPECT_THAT(ProblemsOf(spec), ElementsAre(HasSubstr("there is no common epoch")));
}

TEST(TrainingLengthTest, AWarmUpThatTheCountedStepsDoNotHoldIsRefused) {
  v1::JobSpec spec = Spec();
  spec.mutable_trainer()->set_total_epochs(1);
  spec.mutable_data()->set_train_batch_size(2);
  spec.mutable_actor()->set_lr_schedule("cosine");
  spec.mutable_actor()->set_lr_warmup_steps(5);
  CheckedSpec checked = CheckSpec(spec);
  EXPECT_THAT(ProblemsOf(checked.violations), IsEmpty());
  Violations found;
  FillSteps(10, &checked.effective, &found);
  EXPECT_THAT(ProblemsOf(found.list()),
              ElementsAre(HasSubstr("5 is not below trainer.total_training_steps (5)")));
}

TEST(TrainingLengthTest, AnEvaluationNeedsNoStepsAndNoTrainingData) {
  v1::JobSpec spec = Spec();
  spec.mutable_data()->clear_train_files();
  spec.mutable_data()->add_val_files("v.jsonl");
  spec.mutable_trainer()->set_val_only(true);
  const CheckedSpec checked = CheckSpec(spec);
  EXPECT_THAT(ProblemsOf(checked.violations), IsEmpty());
  EXPECT_TRUE(checked.effective.trainer().val_before_train());
  EXPECT_THAT(ProblemsOf(checked.effective), IsEmpty());
}

TEST(TrainingLengthTest, ASpecOfATrainingCanBeEvaluatedAsItIs) {
  v1::JobSpec spec = Spec();
  spec.mutable_data()->add_val_files("v.jsonl");
  spec.mutable_trainer()->set_total_training_steps(100);
  spec.mutable_trainer()->set_keep_best("val/accuracy");
  spec.mutable_trainer()->mutable_early_stop()->set_metric("val/accuracy");
  spec.mutable_actor()->set_lr_schedule("cosine");
  spec.mutable_trainer()->set_val_before_train(false);
  spec.mutable_trainer()->set_val_only(true);
  const CheckedSpec checked = CheckSpec(spec);
  EXPECT_THAT(ProblemsOf(checked.violations), IsEmpty());
  EXPECT_EQ(checked.effective.trainer().total_training_steps(), 0);
  EXPECT_EQ(checked.effective.trainer().keep_best(), "");
  EXPECT_TRUE(checked.effective.trainer().val_before_train());
}

TEST(TrainingLengthTest, AnEvaluationThatCannotBeIsRefused) {
  v1::JobSpec spec = Spec();
  spec.mutable_trainer()->set_val_only(true);
  EXPECT_THAT(ProblemsOf(spec), ElementsAre("spec.trainer.val_only: needs data.val_files"));
  spec = Spec();
  spec.set_kind(v1::JOB_KIND_SFT);
  spec.clear_reward();
  spec.mutable_data()->add_val_files("v.jsonl");
  spec.mutable_trainer()->set_val_only(true);
  EXPECT_THAT(ProblemsOf(spec), ElementsAre(HasSubstr("spec.trainer.val_only: is of kind rl")));
}

}  // namespace
}  // namespace baton::controller
