#include "controller/spec/job_spec/change_spec.h"

#include <string>
#include <vector>

#include "controller/spec/job_spec/presets.h"
#include "controller/spec/job_spec/spec.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using google::protobuf::util::MessageDifferencer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::JobSpec Submitted() {
  v1::JobSpec spec;
  spec.set_kind(v1::JOB_KIND_RL);
  spec.mutable_model()->mutable_init()->set_characters("01");
  spec.mutable_data()->add_train_files("t");
  spec.mutable_reward()->add_rules()->set_type("numeric");
  spec.mutable_reward()->add_rules()->set_type("exact_match");
  spec.mutable_trainer()->set_total_training_steps(100);
  spec.mutable_actor()->set_lr_schedule("cosine");
  return spec;
}

v1::Job Saved(const v1::JobSpec& spec, int64_t step) {
  CheckedSpec checked = CheckSpec(spec);
  EXPECT_THAT(checked.violations, IsEmpty());
  v1::Job job;
  *job.mutable_spec() = spec;
  *job.mutable_effective_spec() = checked.effective;
  *job.mutable_dataflow() = checked.dataflow;
  job.set_step(step);
  return job;
}

std::vector<std::string> Texts(const ChangedJob& changed) {
  std::vector<std::string> out;
  for (const v1::FieldViolation& v : changed.violations) {
    out.push_back(v.field() + ": " + v.description());
  }
  return out;
}

TEST(ChangeSpecTest, OnlyWhatIsChangedDiffers) {
  const v1::Job saved = Saved(Submitted(), 50);
  v1::JobSpec changes;
  changes.mutable_trainer()->set_total_training_steps(2000);
  changes.mutable_actor()->set_lr(1e-5);
  changes.mutable_reward()->add_rules()->set_type("regex");
  changes.mutable_reward()->mutable_rules(0)->set_pattern("^{answer}$");
  const ChangedJob changed = ChangeSpec(saved, changes);
  ASSERT_THAT(Texts(changed), IsEmpty());
  v1::JobSpec expected = saved.effective_spec();
  expected.mutable_trainer()->set_total_training_steps(2000);
  expected.mutable_actor()->set_lr(1e-5);
  *expected.mutable_reward()->mutable_rules() = changed.effective_spec.reward().rules();
  EXPECT_TRUE(MessageDifferencer::Equals(changed.effective_spec, expected));
  ASSERT_EQ(changed.effective_spec.reward().rules_size(), 1);       // a list is replaced
  EXPECT_EQ(changed.effective_spec.reward().rules(0).weight(), 1);  // with its defaults
  EXPECT_EQ(changed.spec.trainer().total_training_steps(), 2000);
  EXPECT_EQ(changed.spec.actor().lr_schedule(), "cosine");
  EXPECT_EQ(changed.spec.reward().rules_size(), 1);
}

TEST(ChangeSpecTest, AnotherMetricIsComparedAsItsOwnNameSays) {
  v1::JobSpec before = Submitted();
  before.mutable_data()->add_val_files("v");
  before.mutable_trainer()->set_keep_best("val/accuracy");
  before.mutable_trainer()->set_test_freq(5);
  before.mutable_trainer()->mutable_early_stop()->set_metric("val/accuracy");
  before.mutable_trainer()->mutable_early_stop()->set_target(0.9);
  const v1::Job saved = Saved(before, 50);
  ASSERT_EQ(saved.effective_spec().trainer().keep_best_mode(), "max");

  v1::JobSpec changes;
  changes.mutable_trainer()->set_keep_best("actor/pg_loss");
  changes.mutable_trainer()->mutable_early_stop()->set_metric("actor/pg_loss");
  ChangedJob changed = ChangeSpec(saved, changes);
  ASSERT_THAT(Texts(changed), IsEmpty());
  EXPECT_EQ(changed.effective_spec.trainer().keep_best_mode(), "min");
  EXPECT_EQ(changed.effective_spec.trainer().early_stop().mode(), "min");
  EXPECT_FALSE(changed.effective_spec.trainer().early_stop().has_target());
  EXPECT_FALSE(changed.spec.trainer().early_stop().has_target());

  changes.Clear();
  changes.mutable_trainer()->set_keep_best("");
  changed = ChangeSpec(saved, changes);
  ASSERT_THAT(Texts(changed), IsEmpty());
  EXPECT_EQ(changed.effective_spec.trainer().keep_best(), "");
  EXPECT_FALSE(changed.effective_spec.trainer().has_keep_best_mode());
  EXPECT_EQ(changed.effective_spec.trainer().early_stop().target(), 0.9);
}

TEST(ChangeSpecTest, TheBestCheckpointIsKeptByDefaultWhereTheChangedJobEvaluates) {
  v1::JobSpec before = Submitted();
  before.mutable_data()->add_val_files("v");
  const v1::Job saved = Saved(before, 50);
  ASSERT_EQ(saved.effective_spec().trainer().keep_best(), "");
  v1::JobSpec changes;
  changes.mutable_trainer()->set_test_freq(5);
  const ChangedJob evaluates = ChangeSpec(saved, changes);
  ASSERT_THAT(Texts(evaluates), IsEmpty());
  EXPECT_EQ(evaluates.effective_spec.trainer().keep_best(), "val/accuracy");

  before.mutable_trainer()->set_test_freq(5);
  changes.mutable_trainer()->set_test_freq(0);
  const ChangedJob blind = ChangeSpec(Saved(before, 50), changes);
  ASSERT_THAT(Texts(blind), IsEmpty());
  EXPECT_EQ(blind.effective_spec.trainer().keep_best(), "");
  EXPECT_FALSE(blind.effective_spec.trainer().has_keep_best_mode());
}

TEST(ChangeSpecTest, DefaultsFollowTheSettingThatTheyAreTakenFrom) {
  v1::JobSpec before = Submitted();
  before.mutable_algorithm()->set_preset("ppo");
  before.mutable_model()->clear_init();
  before.mutable_model()->set_path("/m");
  before.mutable_data()->set_train_batch_size(16);
  before.mutable_rollout()->set_temperature(0.9);
  v1::Job saved = Saved(before, 50);
  ASSERT_EQ(saved.effective_spec().data().gen_batch_size(), 16);
  v1::JobSpec changes;
  changes.mutable_data()->set_train_batch_size(3);
  changes.mutable_rollout()->set_temperature(0.5);
  changes.mutable_actor()->set_lr(1e-5);
  ChangedJob changed = ChangeSpec(saved, changes);
  ASSERT_THAT(Texts(changed), IsEmpty());
  EXPECT_EQ(changed.effective_spec.data().gen_batch_size(), 3);
  EXPECT_EQ(changed.effective_spec.rollout().val().temperature(), 0.5);
  EXPECT_EQ(changed.effective_spec.critic().train().lr(), 1e-5);

  changes.mutable_critic()->mutable_train()->set_lr(1e-3);  // what is given beside it holds
  changed = ChangeSpec(saved, changes);
  ASSERT_THAT(Texts(changed), IsEmpty());
  EXPECT_EQ(changed.effective_spec.critic().train().lr(), 1e-3);

  changes.Clear();  // another setting: all of them stay
  changes.mutable_trainer()->set_total_training_steps(200);
  changed = ChangeSpec(saved, changes);
  EXPECT_EQ(changed.effective_spec.data().gen_batch_size(), 16);
}

TEST(ChangeSpecTest, ACriticThatBeganWithTheJobsRandomWeightsGoesOn) {
  v1::JobSpec before = Submitted();
  before.mutable_algorithm()->set_preset("ppo");
  const v1::Job saved = Saved(before, 50);
  ASSERT_TRUE(saved.effective_spec().critic().model().has_init());
  v1::JobSpec changes;
  changes.mutable_actor()->set_lr(1e-5);
  const ChangedJob changed = ChangeSpec(saved, changes);
  EXPECT_THAT(Texts(changed), IsEmpty());
  EXPECT_TRUE(MessageDifferencer::Equals(changed.effective_spec.critic().model(),
                                         saved.effective_spec().critic().model()));
  before.mutable_critic()->mutable_model()->mutable_init()->set_characters("012");
  EXPECT_THAT(CheckSpec(before).violations, ::testing::SizeIs(1));  // random weights of its own
}

TEST(ChangeSpecTest, GivenValuesAndOlderDefaultsDoNotFollow) {
  v1::JobSpec before = Submitted();
  before.mutable_data()->set_train_batch_size(16);
  before.mutable_data()->set_gen_batch_size(16);
  v1::Job saved = Saved(before, 50);
  saved.mutable_effective_spec()->mutable_rollout()->mutable_val()->set_temperature(0);
  v1::JobSpec changes;
  changes.mutable_data()->set_train_batch_size(3);
  changes.mutable_rollout()->set_temperature(0.5);
  const ChangedJob changed = ChangeSpec(saved, changes);
  EXPECT_THAT(Texts(changed),
              ElementsAre(HasSubstr("data.gen_batch_size: 16 is more than train_batch_size 3")));
  EXPECT_EQ(changed.effective_spec.rollout().val().temperature(), 0);  // as it was filled in then
}

TEST(ChangeSpecTest, RefusesChangesToWhatTheCheckpointHoldsWithTheReason) {
  v1::JobSpec changes;
  changes.mutable_data()->set_seed(2);
  changes.mutable_data()->add_train_files("other");
  changes.mutable_model()->set_dtype("bfloat16");
  changes.mutable_algorithm()->set_preset("ppo");
  changes.mutable_actor()->mutable_parallel()->set_dp(2);
  changes.mutable_trainer()->set_total_training_steps(200);
  const auto texts = Texts(ChangeSpec(Saved(Submitted(), 50), changes));
  EXPECT_THAT(texts, ::testing::IsSupersetOf(
                         {HasSubstr("spec.data.seed: cannot change when a job goes on from a "
                                    "checkpoint: the checkpoint's prompt cursor"),
                          HasSubstr("spec.data.train_files: cannot change"),
                          HasSubstr("spec.model.dtype: cannot change"),
                          HasSubstr("spec.algorithm.preset: cannot change"),
                          HasSubstr("spec.actor.parallel.dp: cannot change")}));
}

TEST(ChangeSpecTest, AChangeThatBringsARoleIsRefused) {
  v1::JobSpec changes;
  changes.mutable_algorithm()->set_use_kl_loss(true);
  EXPECT_THAT(Texts(ChangeSpec(Saved(Submitted(), 50), changes)),
              ElementsAre(HasSubstr("spec.algorithm: these changes would change the dataflow")));
  changes.mutable_algorithm()->clear_use_kl_loss();
  changes.mutable_algorithm()->set_clip_ratio_high(0.4);
  const ChangedJob changed = ChangeSpec(Saved(Submitted(), 50), changes);
  EXPECT_THAT(Texts(changed), IsEmpty());
  EXPECT_EQ(changed.dataflow.update(0).options().fields().at("clip_ratio_high").number_value(),
            0.4);
}

TEST(ChangeSpecTest, AJobWithNothingLeftToDoIsRefused) {
  EXPECT_THAT(
      Texts(ChangeSpec(Saved(Submitted(), 100), v1::JobSpec())),
      ElementsAre("spec.trainer.total_training_steps: is 100, and the checkpoint is of step "
                  "100: there is nothing left to do; set it to more, with --set "
                  "trainer.total_training_steps=200"));
}

TEST(ChangeSpecTest, EpochsAreOfTheDataThatTheJobHas) {
  v1::JobSpec spec = Submitted();
  spec.mutable_data()->set_train_batch_size(8);
  v1::Job saved = Saved(spec, 50);
  v1::DataFilesSummary* list = saved.add_data_files();
  list->set_list("train_files");
  list->set_examples(100);
  v1::JobSpec changes;
  changes.mutable_trainer()->set_total_epochs(20);
  const ChangedJob changed = ChangeSpec(saved, changes);
  EXPECT_THAT(Texts(changed), IsEmpty());
  EXPECT_EQ(changed.effective_spec.trainer().total_training_steps(), 250);  // 20 * 100 / 8
  EXPECT_FALSE(changed.effective_spec.trainer().has_total_epochs());
  EXPECT_EQ(changed.spec.trainer().total_epochs(), 20);
  EXPECT_FALSE(changed.spec.trainer().has_total_training_steps()) << "one of the two says it";
  // 4 epochs are 50 steps, which are done.
  changes.mutable_trainer()->set_total_epochs(4);
  EXPECT_THAT(Texts(ChangeSpec(saved, changes)),
              ElementsAre(::testing::HasSubstr("spec.trainer.total_training_steps: is 50")));
  // Back to steps.
  saved.mutable_spec()->mutable_trainer()->clear_total_training_steps();
  saved.mutable_spec()->mutable_trainer()->set_total_epochs(20);
  changes.mutable_trainer()->clear_total_epochs();
  changes.mutable_trainer()->set_total_training_steps(300);
  const ChangedJob steps = ChangeSpec(saved, changes);
  EXPECT_THAT(Texts(steps), IsEmpty());
  EXPECT_FALSE(steps.spec.trainer().has_total_epochs());
  EXPECT_EQ(steps.effective_spec.trainer().total_training_steps(), 300);
}

TEST(ChangeSpecTest, ACheckpointIsNotEvaluatedByGoingOn) {
  v1::JobSpec changes;
  changes.mutable_trainer()->set_val_only(true);
  EXPECT_THAT(
      Texts(ChangeSpec(Saved(Submitted(), 5), changes)),
      ::testing::Contains(::testing::HasSubstr("submit a new job with model.path: job:NAME")));
}

TEST(ChangeSpecTest, ValuesAreCheckedAsAtSubmit) {
  v1::JobSpec changes;
  changes.mutable_actor()->set_lr(-1);
  changes.mutable_trainer()->mutable_early_stop()->set_metric("val/accuracy");
  EXPECT_THAT(Texts(ChangeSpec(Saved(Submitted(), 5), changes)),
              ::testing::Contains("spec.actor.lr: -1 is not in [0, 10]"));
}

// So an effective spec is complete, and a change affects only the changed settings.
TEST(ChangeSpecTest, TheEffectiveSpecIsItsOwnEffectiveSpec) {
  for (const Preset& preset : Presets()) {
    for (const char* placement : {"", "colocate", "split", "standalone"}) {
      v1::JobSpec spec = ExampleSpec(preset.name);
      if (*placement != 0) {
        if (preset.kind != v1::JOB_KIND_RL) continue;
        spec.mutable_resources()->set_placement(placement);
      }
      const CheckedSpec once = CheckSpec(spec);
      ASSERT_THAT(once.violations, IsEmpty()) << preset.name << " " << placement;
      const CheckedSpec twice = CheckSpec(once.effective);
      for (const auto& v : twice.violations) {
        ADD_FAILURE() << preset.name << " " << placement << ": " << v.field() << ": "
                      << v.description();
      }
      MessageDifferencer differencer;
      std::string report;
      differencer.ReportDifferencesToString(&report);
      EXPECT_TRUE(differencer.Compare(once.effective, twice.effective))
          << preset.name << " " << placement << ": " << report;
      EXPECT_TRUE(MessageDifferencer::Equals(once.dataflow, twice.dataflow)) << preset.name;
    }
  }
}

TEST(ChangeSpecTest, EverySettingIsDecidedUpon) {
  for (int i = 0; i < v1::JobSpec::descriptor()->field_count(); ++i) {
    const std::string path = v1::JobSpec::descriptor()->field(i)->name();
    EXPECT_NE(WhyFixed(path), "is not among the settings that may change") << path;
  }
  EXPECT_EQ(WhyFixed("trainer.total_training_steps"), "");
  EXPECT_EQ(WhyFixed("critic.train.lr"), "");
  EXPECT_NE(WhyFixed("critic.train.parallel.tp"), "");
  EXPECT_EQ(WhyFixed("data.val_files"), "");
}

}  // namespace
}  // namespace baton::controller
