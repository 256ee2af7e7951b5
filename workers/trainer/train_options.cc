#include "workers/trainer/train_options.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/schema_spec/spec_fields.h"

namespace baton::trainer {
int64_t FirstStepOfActor(const v1::JobSpec& spec) {
  return spec.kind() == v1::JOB_KIND_RL ? spec.algorithm().critic_warmup() : 0;
}

OptimizerSpec MakeOptimizerSpec(const v1::JobSpec& spec, int64_t first_step) {
  OptimizerSpec out;
  ReadFields(OptimizerOptionTable(), spec.actor(), &out);
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

absl::StatusOr<LossSpec> ReadUpdateLoss(absl::string_view role, const v1::Update& update) {
  const auto read = [&]() -> absl::StatusOr<LossSpec> {
    BATON_ASSIGN_OR_RETURN(const Options options, ToOptions(update.options()));
    BATON_ASSIGN_OR_RETURN(const LossSpec loss, MakeLossSpec(update.loss(), options));
    if ((loss.kind == LossSpec::kValue) == (role != "actor")) return loss;
    return absl::InvalidArgumentError(absl::StrCat(
        "'", update.loss(), "' is none of its losses: critics learn value, and no other role"));
  };
  auto loss = read();
  if (!loss.ok()) return Annotate(loss.status(), absl::StrCat("the loss of role ", role));
  return loss;
}

}  // namespace baton::trainer
