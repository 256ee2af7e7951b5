#include "workers/trainer/critic_options.h"

namespace baton::trainer {

v1::JobSpec SpecOfCritic(const v1::JobSpec& spec, absl::string_view role) {
  v1::JobSpec critic = spec;
  if (role == "cost_critic") *critic.mutable_critic() = spec.cost_critic();
  critic.mutable_actor()->MergeFrom(critic.critic().train());
  return critic;
}

}  // namespace baton::trainer
