#include "controller/spec/job_spec/check_paths.h"

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace baton::controller {
namespace {

void CheckPath(absl::string_view field, absl::string_view path, Violations* out) {
  if (!absl::StartsWith(path, "~")) return;
  out->Add(field, absl::StrCat("'", path,
                               "' begins with ~, and the controller knows no user's home; give an "
                               "absolute path (`baton submit` replaces ~/ by your own home)"));
}

void CheckFiles(absl::string_view list, const google::protobuf::RepeatedPtrField<std::string>& files,
                Violations* out) {
  for (int i = 0; i < files.size(); ++i) {
    CheckPath(absl::StrCat("data.", list, "[", i, "]"), files.Get(i), out);
  }
}

}  // namespace

void CheckPaths(const v1::JobSpec& spec, Violations* out) {
  const std::pair<absl::string_view, const v1::ModelSpec*> models[] = {
      {"model", &spec.model()},
      {"critic.model", &spec.critic().model()},
      {"cost_critic.model", &spec.cost_critic().model()},
      {"reference.model", &spec.reference().model()},
      {"reward_model.model", &spec.reward_model().model()},
      {"cost_model.model", &spec.cost_model().model()},
      {"judge.model", &spec.judge().model()}};
  for (const auto& [section, model] : models) {
    CheckPath(absl::StrCat(section, ".path"), model->path(), out);
  }
  CheckFiles("train_files", spec.data().train_files(), out);
  CheckFiles("val_files", spec.data().val_files(), out);
  CheckFiles("pretrain_files", spec.data().pretrain_files(), out);
  CheckPath("reward.working_dir", spec.reward().working_dir(), out);
}

}  // namespace baton::controller
