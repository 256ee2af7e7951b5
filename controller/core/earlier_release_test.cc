#include "controller/spec/earlier_release.h"

#include "controller/core/parts_testing.h"
#include "controller/core/policy_versions.h"
#include "controller/spec/change_spec.h"
#include "controller/spec/spec.h"
#include "controller/spec/spec_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/base/earlier_release.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// An effective spec as a release wrote it whose default was no chat template.
v1::JobSpec Earlier(v1::JobSpec spec) {
  spec.clear_dataflow();
  spec.mutable_model()->set_chat_template("none");
  const CheckedSpec checked = CheckSpec(spec);
  EXPECT_THAT(checked.violations, IsEmpty()) << checked.violations[0].DebugString();
  v1::JobSpec effective = checked.effective;
  effective.mutable_data()->clear_filter_overlong_prompts();
  effective.mutable_trainer()->clear_max_hours();
  return effective;
}

TEST(EarlierReleaseTest, ItsJobsJoinMessagesUnderNone) {
  v1::JobSpec asked = Earlier(ExampleSpec("ppo"));
  AskToJoinMessages(&asked);
  EXPECT_EQ(asked.model().chat_template(), kJoinedMessages);
  EXPECT_EQ(asked.critic().model().chat_template(), kJoinedMessages);
  EXPECT_EQ(asked.reference().model().chat_template(), kJoinedMessages);
  EXPECT_FALSE(asked.has_judge());

  asked = Earlier(ExampleSpec("grpo"));
  asked.mutable_model()->set_chat_template("chatml");
  AskToJoinMessages(&asked);
  EXPECT_EQ(asked.model().chat_template(), "chatml");
}

TEST(EarlierReleaseTest, TodaysJobsRefuseMessagesUnderNone) {
  v1::JobSpec spec = ExampleSpec("sft");
  spec.mutable_model()->set_chat_template("none");
  v1::JobSpec asked = CheckSpec(spec).effective;
  AskToJoinMessages(&asked);
  EXPECT_EQ(asked.model().chat_template(), "none");
  // A user cannot ask for it.
  spec.mutable_model()->set_chat_template(kJoinedMessages);
  const CheckedSpec checked = CheckSpec(spec);
  ASSERT_EQ(checked.violations.size(), 1u);
  EXPECT_EQ(checked.violations[0].field(), "spec.model.chat_template");
}

// It knew the first file of a step: the step may need any file from there on.
TEST(EarlierReleaseTest, AStepNeedsAllFilesFromItsFirstOn) {
  store::v1::JobRow row;
  row.add_kept_steps()->set_first_file(3);
  row.add_kept_steps();  // in progress
  Upgrade(row);
  ASSERT_EQ(row.kept_steps(0).files_size(), 1);
  EXPECT_EQ(row.kept_steps(0).files(0).first(), 3u);
  EXPECT_EQ(row.kept_steps(0).files(0).last(), ~uint32_t{0});
  EXPECT_EQ(row.kept_steps(1).files_size(), 0);
  const std::string once = row.SerializeAsString();
  Upgrade(row);
  EXPECT_EQ(row.SerializeAsString(), once);
}

// It read them and measured nothing with them.
TEST(EarlierReleaseTest, KindSftDoesNotBeginToEvaluate) {
  v1::JobSpec spec = ExampleSpec("sft");
  spec.mutable_data()->add_val_files("prompts-alone.jsonl");
  spec.mutable_trainer()->set_test_freq(5);
  store::v1::JobRow row;
  row.add_groups()->set_role("actor");
  v1::JobSpec* effective = row.mutable_job()->mutable_effective_spec();
  *effective = Earlier(spec);
  ASSERT_TRUE(effective->trainer().val_after_train());
  Upgrade(row);
  EXPECT_THAT(effective->data().val_files(), IsEmpty());
  EXPECT_EQ(effective->trainer().test_freq(), 0);
  EXPECT_FALSE(effective->trainer().val_after_train());

  *effective = CheckSpec(spec).effective;  // of this release
  Upgrade(row);
  EXPECT_EQ(effective->data().val_files_size(), 1);
  EXPECT_EQ(effective->trainer().test_freq(), 5);
}

TEST(EarlierReleaseTest, AJobThatGoesOnWithChangesStaysOne) {
  v1::Job saved;
  *saved.mutable_effective_spec() = Earlier(ExampleSpec("sft"));
  *saved.mutable_spec() = saved.effective_spec();
  *saved.mutable_dataflow() = CheckSpec(saved.effective_spec()).dataflow;
  v1::JobSpec changes;
  changes.mutable_trainer()->set_total_training_steps(
      saved.effective_spec().trainer().total_training_steps() + 1);
  ChangedJob changed = ChangeSpec(saved, changes);
  ASSERT_THAT(changed.violations, IsEmpty()) << changed.violations[0].DebugString();
  EXPECT_TRUE(OfEarlierRelease(changed.effective_spec.data()));
  *saved.mutable_effective_spec() = CheckSpec(saved.spec()).effective;
  EXPECT_FALSE(OfEarlierRelease(ChangeSpec(saved, changes).effective_spec.data()));
}

// Or the next start of the controller would take its new validation files away.
TEST(EarlierReleaseTest, AJobThatGoesOnWithOtherDataIsOneOfThisRelease) {
  v1::Job saved;
  *saved.mutable_effective_spec() = Earlier(ExampleSpec("sft"));
  saved.mutable_effective_spec()->mutable_data()->clear_val_files();
  *saved.mutable_spec() = saved.effective_spec();
  *saved.mutable_dataflow() = CheckSpec(saved.effective_spec()).dataflow;
  v1::JobSpec changes;
  changes.mutable_data()->add_val_files("val.jsonl");
  changes.mutable_trainer()->set_test_freq(5);
  changes.mutable_trainer()->set_total_training_steps(
      saved.effective_spec().trainer().total_training_steps() + 1);
  const ChangedJob changed = ChangeSpec(saved, changes);
  ASSERT_THAT(changed.violations, IsEmpty()) << changed.violations[0].DebugString();
  store::v1::JobRow row;
  row.add_groups()->set_role("actor");
  *row.mutable_job()->mutable_effective_spec() = changed.effective_spec;
  Upgrade(row);
  EXPECT_EQ(row.job().effective_spec().data().val_files_size(), 1);
  EXPECT_EQ(row.job().effective_spec().trainer().test_freq(), 5);
}

// Its validation files were forgotten, and are those that its user gave.
TEST(EarlierReleaseTest, AnSftJobThatGoesOnWithEvaluationsEvaluates) {
  v1::JobSpec spec = ExampleSpec("sft");
  spec.mutable_model()->set_chat_template("none");
  spec.mutable_data()->add_val_files("val.jsonl");
  store::v1::JobRow row;
  row.add_groups()->set_role("actor");
  v1::Job& saved = *row.mutable_job();
  *saved.mutable_spec() = spec;
  *saved.mutable_effective_spec() = Earlier(spec);
  *saved.mutable_dataflow() = CheckSpec(spec).dataflow;
  Upgrade(row);
  v1::JobSpec changes;
  changes.mutable_trainer()->set_total_training_steps(
      saved.effective_spec().trainer().total_training_steps() + 1);
  ChangedJob changed = ChangeSpec(saved, changes);
  ASSERT_THAT(changed.violations, IsEmpty()) << changed.violations[0].DebugString();
  EXPECT_THAT(changed.effective_spec.data().val_files(), IsEmpty());
  EXPECT_FALSE(changed.effective_spec.trainer().val_after_train());

  changes.mutable_trainer()->set_test_freq(5);
  changed = ChangeSpec(saved, changes);
  ASSERT_THAT(changed.violations, IsEmpty()) << changed.violations[0].DebugString();
  EXPECT_TRUE(OfEarlierRelease(changed.effective_spec.data()));  // its data are read as before
  for (int starts = 0; starts < 2; ++starts) {
    *saved.mutable_effective_spec() = changed.effective_spec;
    Upgrade(row);
    EXPECT_THAT(saved.effective_spec().data().val_files(), ElementsAre("val.jsonl"));
    EXPECT_EQ(saved.effective_spec().trainer().test_freq(), 5);
  }
}

// A way back begins with the saved version, so what is made of it counts the updates before it too.
TEST(EarlierReleaseTest, TheSavedVersionIsThatOfItsCheckpoint) {
  store::v1::JobRow row;
  row.add_groups()->set_role("actor");
  row.mutable_job()->set_step(7);
  row.mutable_job()->set_policy_version(12);
  row.set_incarnation(3);
  row.set_saved_step(5);
  for (const int64_t step : {2, 5}) {
    v1::Checkpoint& checkpoint = *row.add_checkpoints();
    checkpoint.set_step(step);
    checkpoint.set_policy_version(static_cast<uint64_t>(step + 4));
  }
  Upgrade(row);
  EXPECT_EQ(row.saved_version(), 9u);
  PolicyVersions versions;
  versions.Restore(row);
  EffectSink out = SinkAt(absl::UnixEpoch(), 5);
  versions.Begun(out);
  store::v1::JobRow begun;
  versions.Save(&begun);
  const store::v1::VersionRow& made = *begun.versions().rbegin();
  EXPECT_EQ(made.version(), 13u);
  EXPECT_EQ(made.parent(), 9u);
  EXPECT_EQ(made.actor_updates(), 5u);
  VersionRows known;
  for (const store::v1::VersionRow& version : begun.versions()) known[version.version()] = version;
  EXPECT_EQ(Staleness(known, 12, 9), 2u) << "of the steps 6 and 7";
  EXPECT_EQ(Staleness(known, 12, 13), 2u);
}

// It took from the spec what the graph of kind sft, or one of the user's own, did not say.
TEST(EarlierReleaseTest, ItsGraphSaysWhatItsWorkersTookFromTheSpec) {
  v1::JobSpec spec = ExampleSpec("sft");
  spec.mutable_algorithm()->set_loss_agg_mode("seq-mean-token-mean");
  store::v1::JobRow row;
  row.add_groups()->set_role("actor");
  const CheckedSpec checked = CheckSpec(spec);
  *row.mutable_job()->mutable_effective_spec() = checked.effective;
  *row.mutable_job()->mutable_dataflow() = checked.dataflow;
  row.mutable_job()->mutable_dataflow()->mutable_update(0)->clear_options();
  Upgrade(row);
  const auto& options = row.job().dataflow().update(0).options().fields();
  EXPECT_EQ(options.at("loss_agg_mode").string_value(), "seq-mean-token-mean");
  EXPECT_EQ(options.count("temperature"), 0u) << "kind sft has no rollouts";
}

// It admitted the option by itself, in the spec or in a graph of the user's own.
TEST(EarlierReleaseTest, AJobWithAThresholdOfNothingGoesOnWithChanges) {
  for (const bool own_graph : {false, true}) {
    store::v1::JobRow row;
    row.add_groups()->set_role("actor");
    v1::Job& saved = *row.mutable_job();
    v1::JobSpec spec = ExampleSpec("grpo");
    spec.clear_dataflow();
    const CheckedSpec checked = CheckSpec(spec);
    if (own_graph) *spec.mutable_dataflow() = checked.dataflow;
    *saved.mutable_dataflow() = checked.dataflow;
    google::protobuf::Struct* loss =
        own_graph ? spec.mutable_dataflow()->mutable_update(0)->mutable_options()
                  : spec.mutable_algorithm()->mutable_loss();
    (*loss->mutable_fields())["rollout_is_threshold"].set_number_value(3);
    *saved.mutable_spec() = spec;
    *saved.mutable_effective_spec() = CheckSpec(spec).effective;
    v1::JobSpec changes;
    changes.mutable_trainer()->set_total_training_steps(
        saved.effective_spec().trainer().total_training_steps() + 1);
    ASSERT_EQ(ChangeSpec(saved, changes).violations.size(), 1u);
    Upgrade(row);
    EXPECT_THAT(ChangeSpec(saved, changes).violations, IsEmpty());
    // What the user gives now is checked.
    if (own_graph) continue;
    *changes.mutable_algorithm()->mutable_loss() = spec.algorithm().loss();
    EXPECT_EQ(ChangeSpec(saved, changes).violations.size(), 1u);
    // Beside rollout_is it stays.
    auto& fields = *saved.mutable_effective_spec()->mutable_algorithm()->mutable_loss();
    (*fields.mutable_fields())["rollout_is"].set_string_value("token");
    (*fields.mutable_fields())["rollout_is_threshold"].set_number_value(3);
    Upgrade(row);
    EXPECT_EQ(fields.fields().count("rollout_is_threshold"), 1u);
  }
}

// Weight decay did not leave norms and biases alone. The field was not there.
TEST(EarlierReleaseTest, AJobThatGoesOnWithChangesDecaysWhatItDecayed) {
  v1::Job saved;
  *saved.mutable_effective_spec() = Earlier(ExampleSpec("ppo"));
  saved.mutable_effective_spec()->mutable_actor()->clear_decay_norms_and_biases();
  saved.mutable_effective_spec()->mutable_critic()->mutable_train()->clear_decay_norms_and_biases();
  *saved.mutable_spec() = saved.effective_spec();
  *saved.mutable_dataflow() = CheckSpec(saved.effective_spec()).dataflow;
  v1::JobSpec changes;
  changes.mutable_trainer()->set_total_training_steps(
      saved.effective_spec().trainer().total_training_steps() + 1);
  ChangedJob changed = ChangeSpec(saved, changes);
  ASSERT_THAT(changed.violations, IsEmpty()) << changed.violations[0].DebugString();
  EXPECT_TRUE(changed.effective_spec.actor().decay_norms_and_biases());
  EXPECT_TRUE(changed.effective_spec.critic().train().decay_norms_and_biases());
  changes.mutable_actor()->set_decay_norms_and_biases(false);
  changed = ChangeSpec(saved, changes);
  ASSERT_THAT(changed.violations, IsEmpty());
  EXPECT_FALSE(changed.effective_spec.actor().decay_norms_and_biases());
  // A job of this release says it, and keeps it.
  *saved.mutable_effective_spec() = CheckSpec(saved.spec()).effective;
  EXPECT_TRUE(saved.effective_spec().actor().has_decay_norms_and_biases());
  EXPECT_FALSE(saved.effective_spec().actor().decay_norms_and_biases());
}

}  // namespace
}  // namespace baton::controller
