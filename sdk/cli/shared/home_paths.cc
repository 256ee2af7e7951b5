#include "sdk/cli/shared/home_paths.h"

#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace baton::cli {
namespace {

void ExpandModel(v1::ModelSpec* model) {
  if (model->has_path()) model->set_path(ExpandHome(model->path()));
}

void ExpandFiles(google::protobuf::RepeatedPtrField<std::string>* files) {
  for (std::string& file : *files) file = ExpandHome(file);
}

}  // namespace

std::string ExpandHome(absl::string_view path) {
  const char* home = std::getenv("HOME");
  const bool own = path == "~" || absl::StartsWith(path, "~/");
  if (!own || home == nullptr || *home == '\0') return std::string(path);
  return absl::StrCat(home, path.substr(1));
}

void ExpandHomes(v1::JobSpec* spec) {
  if (spec->has_model()) ExpandModel(spec->mutable_model());
  if (spec->critic().has_model()) ExpandModel(spec->mutable_critic()->mutable_model());
  if (spec->cost_critic().has_model()) ExpandModel(spec->mutable_cost_critic()->mutable_model());
  if (spec->reference().has_model()) ExpandModel(spec->mutable_reference()->mutable_model());
  if (spec->reward_model().has_model()) ExpandModel(spec->mutable_reward_model()->mutable_model());
  if (spec->cost_model().has_model()) ExpandModel(spec->mutable_cost_model()->mutable_model());
  if (spec->judge().has_model()) ExpandModel(spec->mutable_judge()->mutable_model());
  if (spec->has_data()) {
    ExpandFiles(spec->mutable_data()->mutable_train_files());
    ExpandFiles(spec->mutable_data()->mutable_val_files());
    ExpandFiles(spec->mutable_data()->mutable_pretrain_files());
  }
  if (spec->reward().has_working_dir()) {
    spec->mutable_reward()->set_working_dir(ExpandHome(spec->reward().working_dir()));
  }
}

}  // namespace baton::cli
