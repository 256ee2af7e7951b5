#include "controller/runtime/submit/spec_uploads.h"

#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "controller/runtime/files/folders.h"
#include "controller/runtime/files/named_uploads.h"
#include "controller/runtime/files/upload_path.h"
#include "sdk/common/base/log.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;

// The path relative to the data root of a possible upload, after links are resolved.
std::string BelowRoot(const std::string& data_root, const std::string& path) {
  std::error_code code;
  const fs::path root = fs::weakly_canonical(data_root, code);
  const fs::path real = fs::weakly_canonical(path, code);
  return code ? "" : real.lexically_relative(root).string();
}

}  // namespace

absl::Status SpecUploads::Open(const std::string& project, std::string* file) {
  const std::string path =
      absl::StartsWith(*file, "/") ? *file : absl::StrCat(scope_->options.data_root, "/", *file);
  const std::string below = BelowRoot(scope_->options.data_root, path);
  const auto upload = ParseUploadPath(below);
  BATON_RETURN_IF_ERROR(scope_->paths.Check(path, project));
  if (!upload.has_value()) return absl::OkStatus();
  uploads_->Touch(below);  // a missing file is reported when it is read
  *file = below;
  return absl::OkStatus();
}

// An upload exists before the job that names it. So it stays for at least a day, and for a day
// after a spec that names it was checked: by then, a job that was committed is known. The jobs and
// checkpoints are read before the files are listed.
void SpecUploads::RemoveUnnamed() {
  if (removal_posted_.exchange(true)) return;
  scope_->OnRemover([this] {
    removal_posted_ = false;
    const auto stop = [this] { return scope_->gate.closed(); };
    const absl::Time young = absl::Now() - scope_->options.unnamed_uploads_kept;
    const auto named = FindNamedUploads(*scope_->store, scope_->options.data_root, stop);
    if (!named.ok()) {
      if (stop()) return;
      Log(LogLevel::kWarn, "uploads that no job names stay", {{"error", named.status().message()}});
      return;
    }
    const Uploads::Removed removed = uploads_->RemoveUnnamed(*named, young, stop);
    if (removed.files == 0) return;
    Log(LogLevel::kInfo, "uploads that no job names are removed",
        {{"files", removed.files}, {"bytes", removed.bytes}});
  });
}

void SpecUploads::RemoveUnnamedWhenDue(absl::Time now) {
  const absl::Duration every = scope_->options.look_for_unnamed_uploads;
  const bool deleted = job_deleted_;
  if (now - looked_at_ < (deleted ? std::min(every, scope_->options.look_after_deletion) : every))
    return;
  job_deleted_ = false;
  looked_at_ = now;
  RemoveUnnamed();
}

absl::Status SpecUploads::Restore(const fs::path& checkpoint, const std::string& project,
                                  v1::JobSpec* effective) {
  v1::DataSpec* data = effective->mutable_data();
  for (auto* files :
       {data->mutable_train_files(), data->mutable_val_files(), data->mutable_pretrain_files()}) {
    for (std::string& file : *files) {
      // it is not an upload, so it is searched at its own path
      if (!PathGuard::IsUpload(file)) continue;
      const fs::path kept = checkpoint / "data" / fs::path(file).lexically_relative("files");
      std::error_code code;
      if (!fs::exists(kept, code)) continue;  // CheckFiles reports it
      if (!IsBelow(kept, checkpoint)) {
        return MakeError(
            absl::StatusCode::kInvalidArgument, "CHECKPOINT_FOLDER",
            absl::StrCat(kept.string(), " is a link that leads out of the checkpoint"));
      }
      const auto upload = ParseUploadPath(file);
      const bool own = upload.has_value() && upload->project == project;
      if (own && uploads_->Touch(file)) continue;
      auto path = uploads_->Copy(kept, project, upload.has_value() ? upload->content : "");
      if (absl::IsDataLoss(path.status())) {
        return MakeError(path.status().code(), "CHECKPOINT_FOLDER", path.status().message());
      }
      BATON_RETURN_IF_ERROR(path.status());
      file = *std::move(path);
    }
  }
  return absl::OkStatus();
}

}  // namespace baton::controller
