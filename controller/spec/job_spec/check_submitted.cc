#include "controller/spec/job_spec/check_submitted.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "controller/spec/job_spec/models.h"
#include "controller/spec/settings/check_patterns.h"
#include "sdk/common/messages/violations.h"

namespace baton::controller {
namespace {

void CheckPath(absl::string_view field, absl::string_view path, Violations* out) {
  if (!absl::StartsWith(path, "~")) return;
  out->Add(field, absl::StrCat("'", path,
                               "' begins with ~, and the controller knows no user's home; give an "
                               "absolute path (`baton submit` replaces ~/ by your own home)"));
}

void CheckFiles(absl::string_view list,
                const google::protobuf::RepeatedPtrField<std::string>& files, Violations* out) {
  for (int i = 0; i < files.size(); ++i) {
    CheckPath(absl::StrCat("data.", list, "[", i, "]"), files.Get(i), out);
  }
}

void CheckPaths(const v1::JobSpec& given, Violations* out) {
  v1::JobSpec copy = given;
  for (const auto& [section, model] : ModelsOf(&copy)) {
    CheckPath(absl::StrCat(section, ".path"), model->path(), out);
  }
  CheckFiles("train_files", given.data().train_files(), out);
  CheckFiles("val_files", given.data().val_files(), out);
  CheckFiles("pretrain_files", given.data().pretrain_files(), out);
  CheckPath("reward.working_dir", given.reward().working_dir(), out);
}

void CheckStopStrings(const v1::RolloutSpec& rollout, Violations* out) {
  for (int i = 0; i < rollout.stop_size(); ++i) {
    if (!rollout.stop(i).empty()) continue;
    out->Add(absl::StrCat("rollout.stop[", i, "]"),
             "is empty, which every text ends with; remove it, or give a text");
  }
}

}  // namespace

std::vector<v1::FieldViolation> CheckSubmitted(const v1::JobSpec& given,
                                               const v1::JobSpec& effective,
                                               const v1::Dataflow& dataflow) {
  Violations out;
  CheckPaths(given, &out);
  CheckStopStrings(effective.rollout(), &out);
  CheckMatches(effective, dataflow, &out);
  return out.Take();
}

}  // namespace baton::controller
