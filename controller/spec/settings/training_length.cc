#include "controller/spec/settings/training_length.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "sdk/common/messages/settings.h"

namespace baton::controller {
namespace {

constexpr char kSteps[] = "trainer.total_training_steps";
constexpr char kEpochs[] = "trainer.total_epochs";
constexpr char kValOnly[] = "trainer.val_only";

// A spec of a training may be evaluated with --set trainer.val_only=true, so what it says about
// training is no mistake.
void ClearTraining(v1::TrainerSpec* trainer) {
  trainer->clear_total_training_steps();
  trainer->clear_total_epochs();
  trainer->clear_early_stop();
  trainer->clear_keep_best();
  trainer->clear_keep_best_mode();
}

void CheckValOnly(v1::JobSpec* spec, Violations* out) {
  v1::TrainerSpec* trainer = spec->mutable_trainer();
  if (spec->kind() != v1::JOB_KIND_RL) {
    return out->Add(kValOnly,
                    "is of kind rl: kinds sft and reward_model evaluate with the update of a step; "
                    "remove it");
  }
  if (spec->data().val_files().empty()) out->Add(kValOnly, "needs data.val_files");
  ClearTraining(trainer);
  trainer->set_val_before_train(true);
}

void CheckEpochs(const v1::JobSpec& spec, Violations* out) {
  if (spec.trainer().has_total_training_steps()) {
    return out->Add(kEpochs, "is given beside trainer.total_training_steps; give one of them");
  }
  if (!spec.data().train_mix().empty()) {
    return out->Add(kEpochs,
                    "data.train_mix draws from files at different rates, so there is no common "
                    "epoch; give trainer.total_training_steps");
  }
  if (spec.kind() == v1::JOB_KIND_RL && spec.algorithm().dynamic_sampling()) {
    out->Add(kEpochs,
             "with algorithm.dynamic_sampling a step draws as many prompts as it needs; give "
             "trainer.total_training_steps");
  }
}

}  // namespace

void CheckTrainingLength(v1::JobSpec* spec, Violations* out) {
  const v1::TrainerSpec& trainer = spec->trainer();
  if (trainer.val_only()) return CheckValOnly(spec, out);
  if (trainer.has_total_epochs()) return CheckEpochs(*spec, out);
  if (trainer.has_total_training_steps()) return;
  out->Add(kSteps,
           "is missing; give the number of steps to train, or trainer.total_epochs; "
           "trainer.val_only: true trains nothing");
}

void CheckWarmup(const v1::JobSpec& effective, Violations* out) {
  const v1::TrainerSpec& trainer = effective.trainer();
  if (trainer.total_training_steps() <= 0) return;
  const bool warms_critics =
      effective.kind() == v1::JOB_KIND_RL && effective.algorithm().critic_warmup() > 0;
  const int64_t learns = trainer.total_training_steps() -
                         (warms_critics ? effective.algorithm().critic_warmup() : 0);  // the actor
  const v1::ActorSpec& actor = effective.actor();
  if (actor.lr_schedule() == "constant" || actor.lr_warmup_steps() < learns) return;
  out->Add("actor.lr_warmup_steps",
           absl::StrCat(actor.lr_warmup_steps(), " is not below trainer.total_training_steps (",
                        trainer.total_training_steps(), ")",
                        warms_critics ? " less algorithm.critic_warmup" : "", ", which the ",
                        actor.lr_schedule(), " schedule needs to fall after it"));
}

void FillSteps(uint64_t examples, v1::JobSpec* effective, Violations* out) {
  v1::TrainerSpec* trainer = effective->mutable_trainer();
  if (!trainer->has_total_epochs()) return;
  const auto batch = static_cast<uint64_t>(std::max(1, effective->data().train_batch_size()));
  const uint64_t drawn = static_cast<uint64_t>(trainer->total_epochs()) * examples;
  const uint64_t steps = drawn / batch + (drawn % batch == 0 ? 0 : 1);
  const auto most = static_cast<uint64_t>(
      SettingOf<v1::TrainerSpec>(v1::TrainerSpec::kTotalTrainingStepsFieldNumber).max());
  if (steps < 1 || steps > most) {
    return out->Add(kEpochs,
                    absl::StrCat(trainer->total_epochs(), " epochs of ", examples, " examples are ",
                                 steps, " steps of data.train_batch_size ", batch,
                                 ", which is not in [1, ", most, "]"));
  }
  trainer->set_total_training_steps(static_cast<int64_t>(steps));
  trainer->clear_total_epochs();
  CheckWarmup(*effective, out);
}

}  // namespace baton::controller
