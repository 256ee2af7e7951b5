#include "sdk/cli/spec/spec_paths.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"

namespace baton::cli {

void MakePathsAbsolute(const std::filesystem::path& folder, v1::JobSpec* spec) {
  const auto absolute = [](const std::filesystem::path& path) {
    return std::filesystem::absolute(path).lexically_normal().string();
  };
  std::vector<v1::ModelSpec*> models = {spec->mutable_model()};
  if (spec->has_critic()) models.push_back(spec->mutable_critic()->mutable_model());
  if (spec->has_cost_critic()) models.push_back(spec->mutable_cost_critic()->mutable_model());
  if (spec->has_reference()) models.push_back(spec->mutable_reference()->mutable_model());
  if (spec->has_reward_model()) models.push_back(spec->mutable_reward_model()->mutable_model());
  if (spec->has_cost_model()) models.push_back(spec->mutable_cost_model()->mutable_model());
  if (spec->has_judge()) models.push_back(spec->mutable_judge()->mutable_model());
  for (v1::ModelSpec* model : models) {
    const std::string path = model->path();
    std::error_code code;
    if (!path.empty() && !absl::StartsWith(path, "job:") &&
        std::filesystem::is_directory(folder / path, code)) {
      model->set_path(absolute(folder / path));
    }
  }
  if (spec->reward().has_command() && !spec->reward().has_working_dir()) {
    spec->mutable_reward()->set_working_dir(absolute(folder));
  }
}

}  // namespace baton::cli
