#include "controller/spec/earlier_release.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <string>

#include "controller/spec/models.h"
#include "controller/spec/presets.h"
#include "controller/spec/roles.h"
#include "sdk/base/earlier_release.h"

namespace baton::controller {
namespace {

// An earlier program checked pools, the actor's among them, and gave each role workers of its own.
void ForgetUnusedPools(v1::JobSpec* effective) {
  if (effective->kind() != v1::JOB_KIND_RL) return;
  v1::ResourcesSpec* resources = effective->mutable_resources();
  std::set<std::string> named;
  for (const v1::PoolSpec& pool : resources->pools()) {
    named.insert(pool.roles().begin(), pool.roles().end());
  }
  if (named.count(roles::kActor) == 0 || named.count(roles::kRollout) > 0) return;
  resources->clear_pools();
  resources->clear_placement();
}

// Whether this release made the effective spec, from a spec or from changes to an earlier job's. No
// earlier one knew the setting, and this one fills it in.
bool IsOfThisRelease(const v1::JobSpec& effective) { return effective.trainer().has_max_hours(); }

// Kind sft read its validation files and measured nothing with them. They may lack responses.
void ForgetUnusedValidation(v1::JobSpec* effective) {
  if (effective->kind() != v1::JOB_KIND_SFT || IsOfThisRelease(*effective)) return;
  effective->mutable_data()->clear_val_files();
  effective->mutable_trainer()->set_test_freq(0);
  effective->mutable_trainer()->set_val_before_train(false);
  effective->mutable_trainer()->set_val_after_train(false);
}

// An earlier release admitted the option by itself, and it did nothing. CheckSpec refuses it now,
// and so would refuse that the job goes on with changes.
void ForgetLoneThreshold(v1::JobSpec* effective) {
  const auto forget = [](google::protobuf::Struct* options) {
    auto& fields = *options->mutable_fields();
    if (!fields.contains("rollout_is")) fields.erase("rollout_is_threshold");
  };
  if (effective->algorithm().has_loss()) forget(effective->mutable_algorithm()->mutable_loss());
  if (!effective->has_dataflow()) return;
  for (v1::UpdateNode& node : *effective->mutable_dataflow()->mutable_update()) {
    if (node.has_options()) forget(node.mutable_options());
  }
}

// An earlier release did not say what its versions were made of: each step made an update. The
// saved version is named too, for a way back begins with it.
void NameVersions(store::v1::JobRow* row) {
  const uint64_t newest = row->job().policy_version();
  if (row->versions_size() > 0 || newest == 0) return;
  const auto name = [&](uint64_t version, uint64_t parent, int64_t steps) {
    store::v1::VersionRow* const named = row->add_versions();
    named->set_version(version);
    named->set_incarnation(row->incarnation());
    named->set_parent(parent);
    named->set_actor_updates(static_cast<uint64_t>(std::max<int64_t>(steps, 0)));
  };
  uint64_t saved = 0;
  for (const v1::Checkpoint& checkpoint : row->checkpoints()) {
    if (checkpoint.step() == row->saved_step()) saved = checkpoint.policy_version();
  }
  if (row->saved_step() == row->job().step()) {
    saved = newest;
  } else if (saved >= newest || row->saved_step() > row->job().step()) {
    saved = 0;  // not what a controller writes
  } else if (saved != 0) {
    name(saved, 0, row->saved_step());
  }
  name(newest, saved == newest ? 0 : saved, row->job().step());
  row->set_saved_version(saved);
}

// An earlier release knew the first file that a step needs, and deleted those below the first of
// the oldest kept step. Until that step is retired, it may need any file from there on.
void NameFiles(store::v1::JobRow* row) {
  for (store::v1::StepSerials& kept : *row->mutable_kept_steps()) {
    if (kept.first_file() == 0) continue;
    store::v1::FileRange* const files = kept.add_files();
    files->set_first(kept.first_file());
    files->set_last(std::numeric_limits<uint32_t>::max());
    kept.clear_first_file();
  }
}

}  // namespace

void Upgrade(store::v1::JobRow& row) {
  NameVersions(&row);
  NameFiles(&row);
  if (row.job().has_effective_spec()) {
    ForgetUnusedPools(row.mutable_job()->mutable_effective_spec());
    ForgetUnusedValidation(row.mutable_job()->mutable_effective_spec());
    ForgetLoneThreshold(row.mutable_job()->mutable_effective_spec());
    // Workers of earlier releases took from the spec what the graph left out.
    FillUpdates(row.job().effective_spec(), row.mutable_job()->mutable_dataflow());
  }
  if (row.groups_size() > 0) return;
  store::v1::GroupRow* actor = row.add_groups();
  actor->set_role(roles::kActor);
  actor->set_generation(row.generation());
  actor->set_sequence(row.sequence());
  if (row.has_command()) *actor->mutable_command() = row.command();
  row.clear_generation();
  row.clear_sequence();
  row.clear_command();
  // Every step drew one batch.
  row.set_saved_cursor(static_cast<uint64_t>(std::max<int64_t>(row.saved_step(), 0)) *
                       GenBatchSize(row.job().effective_spec()));
}

void KeepEarlierDefaults(v1::JobSpec* effective) {
  v1::ActorSpec* actor = effective->mutable_actor();
  if (!actor->has_decay_norms_and_biases()) actor->set_decay_norms_and_biases(true);
  if (effective->kind() != v1::JOB_KIND_RL) return;
  v1::RewardSpec* reward = effective->mutable_reward();
  if (!reward->has_max_error_rate()) reward->set_max_error_rate(1);
  if (!reward->has_startup_seconds() && !reward->command().empty()) {
    reward->set_startup_seconds(std::max(0.0, 60 - reward->timeout_seconds()));
  }
}

void RememberValidation(const v1::JobSpec& given, const v1::JobSpec& changes,
                        v1::JobSpec* effective) {
  const v1::TrainerSpec& changed = changes.trainer();
  const bool asked = changed.test_freq() > 0 || changed.val_after_train();
  if (!asked || effective->kind() != v1::JOB_KIND_SFT || !OfEarlierRelease(effective->data()) ||
      !effective->data().val_files().empty()) {
    return;
  }
  *effective->mutable_data()->mutable_val_files() = given.data().val_files();
  if (changed.has_val_after_train()) return;
  v1::TrainerSpec* trainer = effective->mutable_trainer();
  trainer->clear_val_after_train();
  if (given.trainer().has_val_after_train()) {
    trainer->set_val_after_train(given.trainer().val_after_train());
  }
}

void KeepEarlierRelease(const v1::JobSpec& before, const v1::JobSpec& changes,
                        v1::JobSpec* effective) {
  // Data that this release was given are read, and evaluated, as it does.
  if (!OfEarlierRelease(before.data()) || changes.has_data()) return;
  effective->mutable_data()->clear_filter_overlong_prompts();
}

void AskToJoinMessages(v1::JobSpec* effective) {
  if (!OfEarlierRelease(effective->data())) return;
  for (const auto& [field, model] : ModelsOf(effective)) {
    if (model->chat_template() == "none") model->set_chat_template(kJoinedMessages);
  }
}

}  // namespace baton::controller
