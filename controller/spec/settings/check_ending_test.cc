#include "controller/spec/settings/check_ending.h"

#include <functional>
#include <string>
#include <vector>

#include "controller/spec/job_spec/spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using ::testing::IsEmpty;

// A job that evaluates and saves between its steps.
v1::JobSpec EvaluatingSpec(v1::JobKind kind = v1::JOB_KIND_RL) {
  v1::JobSpec spec;
  spec.set_kind(kind);
  spec.mutable_model()->mutable_init()->set_characters("0123456789");
  spec.mutable_data()->add_train_files("a.jsonl");
  spec.mutable_data()->add_val_files("v.jsonl");
  spec.mutable_trainer()->set_total_training_steps(100);
  spec.mutable_trainer()->set_test_freq(10);
  if (kind == v1::JOB_KIND_RL) spec.mutable_reward()->add_rules()->set_type("numeric");
  return spec;
}

v1::TrainerSpec TrainerOf(const v1::JobSpec& spec) {
  const CheckedSpec checked = CheckSpec(spec);
  for (const auto& v : checked.violations) ADD_FAILURE() << v.field() << ": " << v.description();
  return checked.effective.trainer();
}

TEST(CheckEndingTest, TheBestCheckpointIsKeptByWhatTheKindOfJobEvaluates) {
  for (const v1::JobKind kind : {v1::JOB_KIND_RL, v1::JOB_KIND_REWARD_MODEL, v1::JOB_KIND_SFT}) {
    const bool sft = kind == v1::JOB_KIND_SFT;
    const v1::TrainerSpec trainer = TrainerOf(EvaluatingSpec(kind));
    EXPECT_EQ(trainer.keep_best(), sft ? "val/loss" : "val/accuracy");
    EXPECT_EQ(trainer.keep_best_mode(), sft ? "min" : "max");
  }
}

TEST(CheckEndingTest, NoBestCheckpointIsKeptWhereNothingComparesOrTheTrainerWouldWait) {
  const std::vector<std::function<void(v1::JobSpec*)>> edits = {
      [](v1::JobSpec* spec) { spec->mutable_trainer()->set_keep_best(""); },
      [](v1::JobSpec* spec) { spec->mutable_trainer()->set_save_freq(0); },
      [](v1::JobSpec* spec) { spec->mutable_trainer()->clear_test_freq(); },
      [](v1::JobSpec* spec) { spec->mutable_trainer()->set_val_only(true); },
      [](v1::JobSpec* spec) { spec->mutable_algorithm()->set_mode("async"); },
      [](v1::JobSpec* spec) {
        spec->mutable_data()->clear_val_files();
        spec->mutable_trainer()->clear_test_freq();
      },
  };
  for (size_t i = 0; i < edits.size(); ++i) {
    v1::JobSpec spec = EvaluatingSpec();
    edits[i](&spec);
    const v1::TrainerSpec trainer = TrainerOf(spec);
    EXPECT_EQ(trainer.keep_best(), "") << i;
    EXPECT_FALSE(trainer.has_keep_best_mode()) << i;
  }
}

TEST(CheckEndingTest, WhatTheUserSaysIsKept) {
  v1::JobSpec spec = EvaluatingSpec();
  spec.mutable_trainer()->set_keep_best("critic/score/mean");
  EXPECT_EQ(TrainerOf(spec).keep_best(), "critic/score/mean");
  spec.mutable_trainer()->clear_keep_best();
  spec.mutable_trainer()->set_keep_best_mode("min");
  EXPECT_EQ(TrainerOf(spec).keep_best_mode(), "min");
}

// An effective spec may be submitted again.
TEST(CheckEndingTest, AnEffectiveSpecStaysAsItIs) {
  for (const bool off : {false, true}) {
    v1::JobSpec spec = EvaluatingSpec();
    if (off) spec.mutable_trainer()->set_keep_best("");
    const v1::JobSpec effective = CheckSpec(spec).effective;
    const CheckedSpec again = CheckSpec(effective);
    EXPECT_THAT(again.violations, IsEmpty());
    EXPECT_EQ(again.effective.trainer().keep_best(), off ? "" : "val/accuracy");
  }
}

}  // namespace
}  // namespace baton::controller
