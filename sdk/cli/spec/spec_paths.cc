#include "sdk/cli/spec/spec_paths.h"

#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "sdk/common/schema/hub_name.h"

namespace baton::cli {
namespace {

namespace fs = std::filesystem;

// The models of a spec, each with the path of its message in the spec.
std::vector<std::pair<const char*, v1::ModelSpec*>> ModelsOf(v1::JobSpec* spec) {
  std::vector<std::pair<const char*, v1::ModelSpec*>> models;
  const auto add = [&](const char* path, bool there, auto mutable_parent) {
    if (there) models.emplace_back(path, (spec->*mutable_parent)()->mutable_model());
  };
  using Spec = v1::JobSpec;
  if (spec->has_model()) models.emplace_back("model", spec->mutable_model());
  add("critic.model", spec->critic().has_model(), &Spec::mutable_critic);
  add("cost_critic.model", spec->cost_critic().has_model(), &Spec::mutable_cost_critic);
  add("reference.model", spec->reference().has_model(), &Spec::mutable_reference);
  add("reward_model.model", spec->reward_model().has_model(), &Spec::mutable_reward_model);
  add("cost_model.model", spec->cost_model().has_model(), &Spec::mutable_cost_model);
  add("judge.model", spec->judge().has_model(), &Spec::mutable_judge);
  return models;
}

bool IsRelative(const std::string& path) {
  return !path.empty() && path != "?" && path[0] != '/' && path[0] != '~' &&
         !absl::StartsWith(path, "job:");
}

}  // namespace

void MakePathsAbsolute(const fs::path& folder, v1::JobSpec* spec) {
  const auto absolute = [](const fs::path& path) {
    return fs::absolute(path).lexically_normal().string();
  };
  for (const auto& [name, model] : ModelsOf(spec)) {
    const std::string path = model->path();
    std::error_code code;
    const bool of_hub = !HubNameHint(path).empty() && !fs::exists(folder / path, code);
    if (IsRelative(path) && !of_hub) model->set_path(absolute(folder / path));
  }
  if (spec->reward().has_command() && !spec->reward().has_working_dir()) {
    spec->mutable_reward()->set_working_dir(absolute(folder));
  }
}

std::vector<SpecProblem> RelativeModels(const v1::JobSpec& spec) {
  v1::JobSpec copy = spec;
  std::vector<SpecProblem> problems;
  for (const auto& [name, model] : ModelsOf(&copy)) {
    if (!IsRelative(model->path()) || !HubNameHint(model->path()).empty()) continue;
    SpecProblem& problem = problems.emplace_back();
    problem.path = absl::StrCat(name, ".path");
    problem.message = absl::StrCat(
        "'", model->path(),
        "' is relative to the spec's folder on this machine, and models are not "
        "uploaded: give the absolute path of the model's folder where the controller and the "
        "workers run");
  }
  return problems;
}

}  // namespace baton::cli
