#include "workers/trainer/train_options.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sdk/base/options.h"
#include "sdk/base/status_macros.h"
#include "workers/engine/loss_options.h"

namespace baton::trainer {
namespace {

absl::StatusOr<Options> OptionsOf(const v1::Update& update) {
  Options options;
  for (const auto& [key, value] : update.options().fields()) {
    switch (value.kind_case()) {
      case google::protobuf::Value::kNumberValue:
        options[key] = value.number_value();
        break;
      case google::protobuf::Value::kStringValue:
        options[key] = value.string_value();
        break;
      case google::protobuf::Value::kBoolValue:
        options[key] = value.bool_value();
        break;
      default:
        return absl::InvalidArgumentError(absl::StrCat(
            "update option ", key, ": it is neither true, false, a number nor a text"));
    }
  }
  return options;
}

}  // namespace

int64_t FirstStepOfActor(const v1::JobSpec& spec) {
  return spec.kind() == v1::JOB_KIND_RL ? spec.algorithm().critic_warmup() : 0;
}

engine::OptimizerSpec MakeOptimizerSpec(const v1::JobSpec& spec, int64_t first_step) {
  const v1::ActorSpec& actor = spec.actor();
  engine::OptimizerSpec out;
  if (actor.has_lr()) out.lr = actor.lr();
  if (actor.has_beta1()) out.beta1 = actor.beta1();
  if (actor.has_beta2()) out.beta2 = actor.beta2();
  if (actor.has_eps()) out.eps = actor.eps();
  if (actor.has_weight_decay()) out.weight_decay = actor.weight_decay();
  if (actor.has_grad_clip()) out.grad_clip = actor.grad_clip();
  if (actor.has_lr_schedule()) out.lr_schedule = actor.lr_schedule();
  if (actor.has_min_lr_ratio()) out.min_lr_ratio = actor.min_lr_ratio();
  out.lr_warmup_steps = actor.lr_warmup_steps();
  out.total_steps = spec.trainer().total_training_steps() - first_step;
  return out;
}

engine::UpdateOptions MakeUpdateOptions(const v1::JobSpec& spec,
                                        absl::Span<const engine::TrainSequence> batch,
                                        bool on_cpu) {
  engine::UpdateOptions options;
  options.ppo_epochs = std::max(1, spec.actor().ppo_epochs());
  options.ppo_mini_batch_size = spec.actor().ppo_mini_batch_size();
  options.max_token_len = spec.actor().max_token_len();
  if (!on_cpu || options.max_token_len <= engine::kDefaultMaxTokenLen) return options;
  int64_t longest = engine::kDefaultMaxTokenLen;
  for (const auto& sequence : batch) longest = std::max(longest, engine::InputLength(sequence));
  options.max_token_len = std::min(options.max_token_len, longest);
  return options;
}

absl::StatusOr<engine::LossSpec> MakeLossSpec(const v1::JobSpec& spec, const v1::Update& update) {
  const v1::AlgorithmSpec& algorithm = spec.algorithm();
  engine::LossSpec loss;
  if (algorithm.has_clip_ratio_low()) loss.clip_ratio_low = algorithm.clip_ratio_low();
  if (algorithm.has_clip_ratio_high()) loss.clip_ratio_high = algorithm.clip_ratio_high();
  if (algorithm.has_clip_ratio_c()) loss.clip_ratio_c = algorithm.clip_ratio_c();
  if (algorithm.has_loss_agg_mode()) loss.loss_agg_mode = algorithm.loss_agg_mode();
  if (algorithm.has_entropy_coeff()) loss.entropy_coeff = algorithm.entropy_coeff();
  if (algorithm.has_use_kl_loss()) loss.use_kl_loss = algorithm.use_kl_loss();
  if (algorithm.has_kl_loss_coef()) loss.kl_loss_coef = algorithm.kl_loss_coef();
  if (algorithm.has_kl_loss_type()) loss.kl_loss_type = algorithm.kl_loss_type();
  if (update.loss() != "sft" && spec.rollout().temperature() > 0) {
    loss.temperature = spec.rollout().temperature();
  }
  BATON_ASSIGN_OR_RETURN(const Options options, OptionsOf(update));
  auto made = engine::MakeLossSpec(update.loss(), options, loss);
  if (!made.ok()) return Annotate(made.status(), "the actor's loss");
  return made;
}

}  // namespace baton::trainer
