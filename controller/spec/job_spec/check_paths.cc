#include "controller/spec/job_spec/check_paths.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "controller/spec/job_spec/models.h"

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

void CheckPaths(v1::JobSpec* effective, Violations* out) {
  for (const auto& [section, model] : ModelsOf(effective)) {
    CheckPath(absl::StrCat(section, ".path"), model->path(), out);
  }
  CheckFiles("train_files", effective->data().train_files(), out);
  CheckFiles("val_files", effective->data().val_files(), out);
  CheckFiles("pretrain_files", effective->data().pretrain_files(), out);
  CheckPath("reward.working_dir", effective->reward().working_dir(), out);
}

}  // namespace baton::controller
