#include "controller/runtime/submit/submission.h"

#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "controller/spec/job_spec/models.h"
#include "sdk/common/base/status_macros.h"

namespace baton::controller {

namespace fs = std::filesystem;

absl::StatusOr<std::string> Submission::StageModel(const fs::path& files,
                                                   const std::string& source) {
  std::string name = copies.empty() ? "model" : absl::StrCat("model-", copies.size() + 1);
  if (adopt) {  // the folder of a lost job may have that name already
    std::error_code code;
    const fs::path job = origin.checkpoint.parent_path().parent_path();
    if (fs::exists(job / name, code)) absl::StrAppend(&name, "-", uid);
  }
  const fs::path folder = staged->Stage(name);
  BATON_RETURN_IF_ERROR(LinkCheckpoint(files, folder));
  copies[folder.string()] = {name, source};
  return folder.string();
}

void Submission::NameSources(std::vector<v1::FieldViolation>* violations) const {
  for (const auto& [folder, copy] : copies) {
    for (v1::FieldViolation& violation : *violations) {
      absl::StrReplaceAll({{folder, copy.source}}, violation.mutable_description());
    }
  }
}

void Submission::NameSources(v1::JobSpec* spec) const {
  for (const auto& [field, model] : ModelsOf(spec)) {
    const auto copy = copies.find(model->path());
    if (copy != copies.end()) model->set_path(copy->second.source);
  }
}

void Submission::PlaceCopies(const fs::path& folder, v1::JobSpec* spec) const {
  for (const auto& [field, model] : ModelsOf(spec)) {
    const auto copy = copies.find(model->path());
    if (copy != copies.end()) model->set_path((folder / copy->second.name).string());
  }
}

}  // namespace baton::controller
