#include "controller/runtime/submit/model_folders.h"

#include <filesystem>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "controller/access/caller.h"
#include "controller/runtime/cluster/job_order.h"
#include "controller/runtime/files/folders.h"
#include "controller/runtime/files/model_config.h"
#include "controller/runtime/job_files/checkpoint_choice.h"
#include "controller/runtime/job_files/job_folders.h"
#include "controller/runtime/rows/checkpoint_rows.h"
#include "controller/runtime/rows/tables.h"
#include "sdk/common/base/gguf_file.h"
#include "sdk/common/base/nearest.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/rpc/error.h"
#include "sdk/common/schema/hub_name.h"

namespace baton::controller {

namespace fs = std::filesystem;

// The folder that `path` names, or the problem with it.
absl::StatusOr<std::string> ModelFolders::Resolve(const std::string& path,
                                                  const std::string& project) {
  if (NamesCheckpoint(path)) {
    BATON_ASSIGN_OR_RETURN(const v1::Checkpoint checkpoint, CheckpointOf(path, project));
    return checkpoint.path() + "/actor";
  }
  const std::string folder =
      absl::StartsWith(path, "/") ? path : absl::StrCat(scope_->options.data_root, "/", path);
  BATON_RETURN_IF_ERROR(scope_->paths.CheckFolder(folder, project));
  const std::string problem = ModelConfigProblem(folder);
  if (problem.empty()) return folder;
  std::string hint = GgufHint(folder);
  if (hint.empty()) hint = HubNameHint(path);
  return absl::InvalidArgumentError(absl::StrCat(
      problem, "; ", hint.empty() ? "give a Hugging Face directory, or job:NAME" : hint));
}

// "; did you mean 'add'?": of the project's newest jobs, the one with the nearest name. Empty: no
// name is near.
static std::string NearJob(store::Store& store, const std::string& name) {
  constexpr size_t kMostKnown = 1000;
  const size_t cut = name.rfind('/') + 1;
  store::ScanOptions newest =
      OrderedJobs(access::ProjectOf(name), std::numeric_limits<int64_t>::max());
  newest.limit = kMostKnown;
  const auto rows = store.Scan(kOrderTable, newest);
  if (!rows.ok()) return "";
  std::vector<std::string> known;
  for (const store::Row& row : *rows) known.push_back(JobOfOrder(row).substr(cut));
  const std::string* nearest = Nearest(name.substr(cut), known);
  return nearest == nullptr ? "" : absl::StrCat("; did you mean '", *nearest, "'?");
}

absl::StatusOr<v1::Checkpoint> ModelFolders::CheckpointOf(const std::string& path,
                                                          const std::string& project) const {
  const CheckpointName name = ParseCheckpointName(path);
  const std::string source = FullJobName(name.job, project);
  if (scope_->paths.confined() && access::ProjectOf(source) != project) {
    return absl::InvalidArgumentError(absl::StrCat("job '", source, "' is of another project"));
  }
  const auto row = scope_->store->Get(kJobTable, source);
  store::v1::JobRow job;
  if (!row.ok() || !row->has_value() || !job.ParseFromString(**row)) {
    return MakeError(
        absl::StatusCode::kNotFound, "JOB_NOT_FOUND",
        absl::StrCat("there is no job '", source, "'", NearJob(*scope_->store, source)),
        {{"job", source}});
  }
  BATON_RETURN_IF_ERROR(ReadCheckpoints(*scope_->store, source, &job));
  return ChooseCheckpoint(name.job, name.which,
                          {job.checkpoints().begin(), job.checkpoints().end()});
}

// True if the folder belongs to another job. That job may be deleted, or its checkpoint may be
// deleted in favour of newer ones.
static bool IsOfAnotherJob(const fs::path& folder, const Submission& submission,
                           const std::string& data_root) {
  // JOB/checkpoints/step-N, of this controller or of another one. Beside its checkpoints, a job's
  // folder has models named model, model-2, …. Another folder beside `checkpoints` does not belong
  // to a job.
  const fs::path checkpoints = submission.origin.checkpoint.parent_path();
  const bool model_of_job = folder.parent_path() == checkpoints.parent_path() &&
                            absl::StartsWith(folder.filename().string(), "model");
  const bool of_first =
      checkpoints.filename() == "checkpoints" && (IsBelow(folder, checkpoints) || model_of_job);
  if (submission.adopt && of_first) return false;  // that job's folder becomes this job's own
  return of_first || IsBelow(folder, data_root + "/jobs");
}

// Another job may change before this submission is checked, and while the new job runs, so its
// model is copied first. Errors that are not mistakes of the spec are also put into the
// submission's `read`.
absl::StatusOr<std::string> ModelFolders::Stage(const std::string& reference,
                                                Submission* submission) {
  constexpr int kTries = 3;  // a newer checkpoint may replace the newest one
  for (int tries = 1;; ++tries) {
    BATON_ASSIGN_OR_RETURN(const std::string source,
                           Resolve(reference, submission->request.project()));
    for (const auto& [folder, copy] : submission->copies) {
      if (copy.source == source) return folder;
    }
    if (submission->copies_place == nullptr) {
      auto place = waiting_->EnterCopies(submission->request.project());
      if (!place.ok()) return submission->read = place.status();
      submission->copies_place = *std::move(place);
    }
    auto staged = submission->StageModel(source, source);
    if (staged.ok()) return staged;
    if (tries < kTries && absl::IsNotFound(staged.status())) continue;
    if (absl::IsInvalidArgument(staged.status())) return staged;  // files that cannot be copied
    return submission->read = staged.status();                    // not a mistake of the spec
  }
}

absl::StatusOr<std::string> ModelFolders::Find(const std::string& reference,
                                               Submission* submission) {
  if (submission->copies.count(reference) > 0) {
    const std::string problem = ModelConfigProblem(reference);
    if (!problem.empty()) return absl::InvalidArgumentError(problem);
    return reference;
  }
  if (NamesCheckpoint(reference)) return Stage(reference, submission);
  BATON_ASSIGN_OR_RETURN(const std::string folder,
                         Resolve(reference, submission->request.project()));
  return IsOfAnotherJob(folder, *submission, scope_->options.data_root)
             ? Stage(reference, submission)
             : folder;
}

}  // namespace baton::controller
