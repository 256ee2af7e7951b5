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

TEST(TrainOptions, NormsAndBiasesDecayIfTheSpecSaysSo) {
  v1::JobSpec spec;
  EXPECT_FALSE(MakeOptimizerSpec(spec).decay_norms_and_biases);
  spec.mutable_actor()->set_decay_norms_and_biases(true);
  EXPECT_TRUE(MakeOptimizerSpec(spec).decay_norms_and_biases);
}

v1::Update UpdateBy(const std::string& loss) {
  v1::Update update;
  update.set_loss(loss);
  return update;
}

std::string Refusal(const std::string& role, const v1::Update& update) {
  return std::string(ReadUpdateLoss(role, update).status().message());
}

TEST(TrainOptions, AnUpdateAloneSaysItsLoss) {
  v1::Update update = UpdateBy("ppo_clip");
  auto& options = *update.mutable_options()->mutable_fields();
  options["clip_ratio_low"].set_number_value(0.1);
  options["loss_agg_mode"].set_string_value("seq-mean-token-mean");
  options["use_kl_loss"].set_bool_value(true);
  options["temperature"].set_number_value(0.7);
  const auto loss = ReadUpdateLoss("actor", update).value();
  EXPECT_EQ(loss.kind, LossSpec::kPpoClip);
  EXPECT_EQ(loss.clip_ratio_low, 0.1);
  EXPECT_EQ(loss.clip_ratio_high, 0.2);
  EXPECT_EQ(loss.loss_agg_mode, "seq-mean-token-mean");
  EXPECT_TRUE(loss.use_kl_loss);
  EXPECT_EQ(loss.temperature, 0.7);
  update.set_loss("gspo");
  EXPECT_EQ(ReadUpdateLoss("actor", update).value().kind, LossSpec::kGspo);
  EXPECT_EQ(ReadUpdateLoss("actor", UpdateBy("sft")).value().temperature, 1);
  EXPECT_EQ(ReadUpdateLoss("critic", UpdateBy("value")).value().cliprange_value, 0.5);
}

TEST(TrainOptions, UnknownNamesAndTypesAreErrors) {
  EXPECT_THAT(Refusal("actor", UpdateBy("dpo")), HasSubstr("'dpo' is no loss"));
  EXPECT_THAT(Refusal("actor", UpdateBy("value")), HasSubstr("role actor: 'value' is none of its"));
  EXPECT_THAT(Refusal("critic", UpdateBy("sft")), HasSubstr("role critic: 'sft' is none of its"));
  v1::Update update = UpdateBy("sft");
  (*update.mutable_options()->mutable_fields())["clip"].set_number_value(1);
  EXPECT_THAT(Refusal("actor", update), HasSubstr("clip: sft has no such option"));
  update.mutable_options()->clear_fields();
  (*update.mutable_options()->mutable_fields())["use_kl_loss"].set_number_value(1);
  EXPECT_THAT(Refusal("actor", update), HasSubstr("use_kl_loss: 1 is neither true nor false"));
  (*update.mutable_options()->mutable_fields())["use_kl_loss"].mutable_list_value();
  EXPECT_THAT(Refusal("actor", update), HasSubstr("use_kl_loss: is neither"));
}

}  // namespace
}  // namespace baton::trainer
