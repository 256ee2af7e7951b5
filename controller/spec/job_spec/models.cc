#include "controller/spec/job_spec/models.h"

namespace baton::controller {

std::vector<std::pair<std::string, v1::ModelSpec*>> ModelsOf(v1::JobSpec* spec) {
  std::vector<std::pair<std::string, v1::ModelSpec*>> models = {{"model", spec->mutable_model()}};
  const auto add = [&models](const char* field, bool there, auto section) {
    if (there) models.emplace_back(field, section()->mutable_model());
  };
  add("critic.model", spec->has_critic(), [spec] { return spec->mutable_critic(); });
  add("cost_critic.model", spec->has_cost_critic(), [spec] { return spec->mutable_cost_critic(); });
  add("reference.model", spec->has_reference(), [spec] { return spec->mutable_reference(); });
  add("reward_model.model", spec->has_reward_model(),
      [spec] { return spec->mutable_reward_model(); });
  add("cost_model.model", spec->has_cost_model(), [spec] { return spec->mutable_cost_model(); });
  add("judge.model", spec->has_judge(), [spec] { return spec->mutable_judge(); });
  return models;
}

}  // namespace baton::controller
