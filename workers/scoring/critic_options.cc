#include "workers/scoring/critic_options.h"

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "sdk/base/status_macros.h"

namespace baton::scoring {
namespace {

using Value = google::protobuf::Value;

absl::Status Apply(const std::string& key, const Value& value, engine::ValueLossSpec& loss) {
  const std::map<std::string, double*> numbers = {{"cliprange_value", &loss.cliprange_value},
                                                  {"loss_scale_factor", &loss.loss_scale_factor}};
  if (const auto it = numbers.find(key); it != numbers.end()) {
    if (value.kind_case() != Value::kNumberValue) {
      return absl::InvalidArgumentError(absl::StrCat("update option ", key, ": expected a number"));
    }
    *it->second = value.number_value();
    return absl::OkStatus();
  }
  if (key != "loss_agg_mode") {
    return absl::InvalidArgumentError(
        absl::StrCat("update option ", key, ": loss value has cliprange_value, loss_agg_mode and ",
                     "loss_scale_factor"));
  }
  if (value.kind_case() != Value::kStringValue) {
    return absl::InvalidArgumentError(absl::StrCat("update option ", key, ": expected a string"));
  }
  loss.loss_agg_mode = value.string_value();
  return absl::OkStatus();
}

}  // namespace

v1::JobSpec SpecOfCritic(const v1::JobSpec& spec, absl::string_view role) {
  v1::JobSpec critic = spec;
  if (role == "cost_critic") *critic.mutable_critic() = spec.cost_critic();
  critic.mutable_actor()->MergeFrom(critic.critic().train());
  return critic;
}

absl::StatusOr<engine::ValueLossSpec> MakeValueLossSpec(const v1::JobSpec& spec,
                                                        const v1::Update& update) {
  if (update.loss() != "value") {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown loss \"", update.loss(), "\": the critic knows value"));
  }
  engine::ValueLossSpec loss;
  if (spec.critic().has_cliprange_value()) loss.cliprange_value = spec.critic().cliprange_value();
  if (spec.algorithm().has_loss_agg_mode()) loss.loss_agg_mode = spec.algorithm().loss_agg_mode();
  const std::map<std::string, Value> options(update.options().fields().begin(),
                                             update.options().fields().end());
  for (const auto& [key, value] : options) BATON_RETURN_IF_ERROR(Apply(key, value, loss));
  BATON_RETURN_IF_ERROR(engine::Validate(loss));
  return loss;
}

}  // namespace baton::scoring
