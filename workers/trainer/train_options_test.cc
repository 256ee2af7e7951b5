#include "workers/trainer/train_options.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::trainer {
namespace {

using ::testing::HasSubstr;

TEST(TrainOptions, SchedulesCountStepsOfTheJob) {
  v1::JobSpec spec;
  spec.set_kind(v1::JOB_KIND_RL);
  spec.mutable_data()->set_train_batch_size(10);
  spec.mutable_rollout()->set_n(8);
  spec.mutable_actor()->set_ppo_mini_batch_size(32);
  spec.mutable_actor()->set_ppo_epochs(2);
  spec.mutable_actor()->set_lr(0.5);
  spec.mutable_actor()->set_lr_schedule("linear");
  spec.mutable_actor()->set_lr_warmup_steps(5);
  spec.mutable_trainer()->set_total_training_steps(100);
  const auto optimizer = MakeOptimizerSpec(spec);
  EXPECT_EQ(optimizer.total_steps, 100);
  EXPECT_EQ(optimizer.lr_warmup_steps, 5);
  EXPECT_EQ(optimizer.lr, 0.5);
  EXPECT_EQ(optimizer.lr_schedule, "linear");
  EXPECT_EQ(optimizer.beta2, 0.999);
  spec.mutable_algorithm()->set_critic_warmup(30);
  EXPECT_EQ(FirstStepOfActor(spec), 30);
  EXPECT_EQ(MakeOptimizerSpec(spec, FirstStepOfActor(spec)).total_steps, 70);
  spec.set_kind(v1::JOB_KIND_SFT);
  EXPECT_EQ(FirstStepOfActor(spec), 0);
}

TEST(TrainOptions, MicroBatchesFitTheCache) {
  v1::JobSpec spec;
  spec.mutable_actor()->set_ppo_epochs(2);
  spec.mutable_actor()->set_max_token_len(16384);
  std::vector<engine::TrainSequence> batch(1);
  batch[0].tokens.resize(101);
  EXPECT_EQ(MakeUpdateOptions(spec, batch, true).ppo_epochs, 2);
  EXPECT_EQ(MakeUpdateOptions(spec, batch, true).max_token_len, 4096);
  EXPECT_EQ(MakeUpdateOptions(spec, batch, false).max_token_len, 16384);
  batch[0].tokens.resize(5001);
  EXPECT_EQ(MakeUpdateOptions(spec, batch, true).max_token_len, 5000);
  batch[0].tokens.resize(20001);  // Over the user's budget: an error of the trainer.
  EXPECT_EQ(MakeUpdateOptions(spec, batch, true).max_token_len, 16384);
  spec.mutable_actor()->set_max_token_len(100);
  EXPECT_EQ(MakeUpdateOptions(spec, batch, true).max_token_len, 100);
}

TEST(TrainOptions, LossComesFromTheSpecAndIsChangedByTheNode) {
  v1::JobSpec spec;
  spec.mutable_algorithm()->set_clip_ratio_high(0.28);
  spec.mutable_rollout()->set_temperature(0.7);
  v1::Update update;
  update.set_loss("ppo_clip");
  auto& options = *update.mutable_options()->mutable_fields();
  options["clip_ratio_low"].set_number_value(0.1);
  options["loss_agg_mode"].set_string_value("seq-mean-token-mean");
  options["use_kl_loss"].set_bool_value(true);
  const auto loss = MakeLossSpec(spec, update).value();
  EXPECT_EQ(loss.kind, engine::LossSpec::kPpoClip);
  EXPECT_EQ(loss.clip_ratio_low, 0.1);
  EXPECT_EQ(loss.clip_ratio_high, 0.28);
  EXPECT_EQ(loss.loss_agg_mode, "seq-mean-token-mean");
  EXPECT_TRUE(loss.use_kl_loss);
  EXPECT_EQ(loss.temperature, 0.7);
  update.set_loss("gspo");
  EXPECT_EQ(MakeLossSpec(spec, update).value().kind, engine::LossSpec::kGspo);
  EXPECT_EQ(MakeLossSpec(spec, update).value().temperature, 0.7);
  update.set_loss("sft");
  options.erase("clip_ratio_low");
  EXPECT_EQ(MakeLossSpec(spec, update).value().temperature, 1);
}

TEST(TrainOptions, UnknownNamesAndTypesAreErrors) {
  v1::Update update;
  update.set_loss("dpo");
  EXPECT_THAT(std::string(MakeLossSpec({}, update).status().message()), HasSubstr("dpo"));
  update.set_loss("sft");
  (*update.mutable_options()->mutable_fields())["clip"].set_number_value(1);
  EXPECT_THAT(std::string(MakeLossSpec({}, update).status().message()), HasSubstr("clip"));
  update.mutable_options()->clear_fields();
  (*update.mutable_options()->mutable_fields())["use_kl_loss"].set_number_value(1);
  EXPECT_THAT(std::string(MakeLossSpec({}, update).status().message()),
              HasSubstr("use_kl_loss: 1 is neither true nor false"));
  (*update.mutable_options()->mutable_fields())["use_kl_loss"].mutable_list_value();
  EXPECT_THAT(std::string(MakeLossSpec({}, update).status().message()),
              HasSubstr("update option use_kl_loss"));
}

}  // namespace
}  // namespace baton::trainer
