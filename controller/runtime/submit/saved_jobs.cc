#include "controller/runtime/submit/saved_jobs.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "controller/access/caller.h"
#include "controller/runtime/files/folders.h"
#include "controller/runtime/job_files/checkpoint_choice.h"
#include "controller/runtime/job_files/checkpoint_copy.h"
#include "controller/runtime/job_files/checkpoint_files.h"
#include "controller/runtime/job_files/data_files.h"
#include "controller/runtime/job_files/job_folders.h"
#include "controller/runtime/job_files/optimizer_files.h"
#include "controller/runtime/job_files/saved_job.h"
#include "controller/spec/dataflow/learning.h"
#include "controller/spec/dataflow/replay.h"
#include "controller/spec/dataflow/role_names.h"
#include "controller/spec/job_spec/change_spec.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;

// The name of the model in the folder of a job that begins with it.
std::string OwnCheckpoint(const store::v1::JobRow& saved) {
  return absl::StrCat("checkpoints/step-", saved.job().step());
}

// Replaces the path of the copy `from` by that of the checkpoint, for messages.
absl::Status NameCheckpoint(const absl::Status& status, const fs::path& from,
                            const fs::path& checkpoint) {
  if (status.ok() || from.empty()) return status;
  absl::Status out(status.code(),
                   absl::StrReplaceAll(status.message(), {{from.string(), checkpoint.string()}}));
  status.ForEachPayload(
      [&out](absl::string_view type, const absl::Cord& payload) { out.SetPayload(type, payload); });
  return out;
}

// `measured`: as MeasureCheckpoint sets it.
v1::Checkpoint CheckpointAt(const fs::path& path, const store::v1::JobRow& saved,
                            const v1::Checkpoint& measured) {
  v1::Checkpoint checkpoint = measured;
  checkpoint.set_step(saved.job().step());
  checkpoint.set_path(path.string());
  checkpoint.set_policy_version(saved.job().policy_version());
  return checkpoint;
}

}  // namespace

absl::StatusOr<Origin> SavedJobs::FindOrigin(const std::string& named,
                                             const std::string& project) const {
  std::string folder = named;
  if (NamesCheckpoint(named)) {
    BATON_ASSIGN_OR_RETURN(const v1::Checkpoint chosen, models_->CheckpointOf(named, project));
    // The files of a checkpoint that is marked may still be there.
    if (chosen.weights_only()) return WeightsOnlyError(chosen.path());
    folder = chosen.path();
  }
  fs::path given =
      absl::StartsWith(folder, "/") ? folder : absl::StrCat(scope_->options.data_root, "/", folder);
  BATON_RETURN_IF_ERROR(scope_->paths.Check(given.string(), project));
  std::error_code code;
  given = fs::weakly_canonical(given, code);
  if (code) return CheckpointFolderError(absl::StatusCode::kNotFound, folder, "cannot be read");
  Origin origin;
  origin.checkpoint = given;
  if (!fs::exists(given / "job.json", code) && fs::is_directory(given / "checkpoints", code)) {
    const auto found = FindCheckpoints(given);
    if (found.empty()) {
      return CheckpointFolderError(absl::StatusCode::kNotFound, given,
                                   "holds no complete checkpoint");
    }
    origin.checkpoint = found.back().path;
  }
  BATON_RETURN_IF_ERROR(scope_->paths.CheckFolder(origin.checkpoint.string(), project));
  // jobs/PROJECT/JOB/checkpoints/step-N of a job that this controller does not know: its rows are
  // lost.
  const fs::path jobs =
      fs::weakly_canonical(absl::StrCat(scope_->options.data_root, "/jobs/", project), code);
  const fs::path inside = origin.checkpoint.lexically_relative(jobs);
  const std::string id = inside.empty() ? "" : inside.begin()->string();
  if (!access::ValidId(id) || std::distance(inside.begin(), inside.end()) != 3) return origin;
  if (!scope_->ended->Exists(FullJobName(id, project))) origin.lost_job = id;
  return origin;
}

// The lost job's own checkpoints up to this one, oldest first.
absl::StatusOr<std::vector<v1::Checkpoint>> SavedJobs::AdoptCheckpoints(const fs::path& folder,
                                                                        const fs::path& chosen,
                                                                        int64_t step) const {
  std::vector<v1::Checkpoint> out;
  for (const FoundCheckpoint& found : FindCheckpoints(folder)) {
    if (found.step > step) continue;
    const auto saved = ReadSavedJob(found.path);
    // it stays where it is, unlisted
    if (!saved.ok() || saved->job().step() != found.step) continue;
    v1::Checkpoint measured;
    MeasureCheckpoint(found.path, &measured);
    out.push_back(CheckpointAt(found.path, *saved, measured));
  }
  std::error_code code;
  if (!out.empty() && fs::equivalent(out.back().path(), chosen, code)) return out;
  return CheckpointFolderError(absl::StatusCode::kInvalidArgument, chosen,
                               absl::StrCat("is of step ", step, " and is not called step-", step,
                                            "; rename it, or give the job another name"));
}

absl::Status SavedJobs::Find(Submission* submission) const {
  const v1::CreateJobRequest& request = submission->request;
  const std::string& project = request.project();
  BATON_ASSIGN_OR_RETURN(submission->origin, FindOrigin(request.checkpoint(), project));
  const std::string& lost = submission->origin.lost_job;
  submission->adopt =
      !lost.empty() && (request.job_id().empty() ||
                        FullJobName(request.job_id(), project) == FullJobName(lost, project));
  BATON_ASSIGN_OR_RETURN(submission->saved, ReadSavedJob(submission->origin.checkpoint));
  BATON_RETURN_IF_ERROR(CheckHasOptimizer(submission->origin.checkpoint));
  if (Replays(submission->saved.job().dataflow())) {
    // The replay would need recorded batches, and there are none after its last step.
    return MakeError(absl::StatusCode::kFailedPrecondition, "REPLAY_KIND",
                     absl::StrCat(submission->origin.checkpoint.string(),
                                  " is of a replay, which cannot be continued; go on from a "
                                  "checkpoint of the job that it repeats"));
  }
  return absl::OkStatus();
}

// The saved job with the changes of the request.
absl::Status SavedJobs::Change(const v1::JobSpec& changes, v1::Job* saved) {
  ChangedJob changed = ChangeSpec(*saved, changes);
  if (!changed.violations.empty()) return MakeSpecError(changed.violations);
  *saved->mutable_spec() = std::move(changed.spec);
  *saved->mutable_effective_spec() = std::move(changed.effective_spec);
  *saved->mutable_dataflow() = std::move(changed.dataflow);
  saved->set_total_steps(saved->effective_spec().trainer().total_training_steps());
  return absl::OkStatus();
}

// The saved job with the changes of the request, ready to be checked. Errors name the checkpoint as
// the user named it.
absl::Status SavedJobs::Prepare(Submission* submission) {
  absl::Status prepared = Stage(submission);
  if (prepared.ok()) prepared = ChangeStaged(submission);
  return NameCheckpoint(prepared, submission->from, submission->origin.checkpoint);
}

absl::Status SavedJobs::ChangeStaged(Submission* submission) {
  if (submission->request.has_changes()) {
    v1::Job* saved = submission->saved.mutable_job();
    const v1::JobSpec before = saved->effective_spec();
    BATON_RETURN_IF_ERROR(Change(submission->request.changes(), saved));
    BeginAnewWith(before, saved->effective_spec(), submission->saved.mutable_learning());
  }
  const fs::path& from = submission->from;
  const std::string& project = submission->request.project();
  v1::JobSpec& effective = *submission->saved.mutable_job()->mutable_effective_spec();
  if (const std::string path = effective.model().path();
      !path.empty() && !(submission->adopt && models_->Resolve(path, project).ok())) {
    // The model that the saved job began with may be absent on this machine.
    BATON_ASSIGN_OR_RETURN(
        *effective.mutable_model()->mutable_path(),
        submission->StageModel(from / roles::kActor,
                               (submission->origin.checkpoint / roles::kActor).string()));
  }
  return uploads_->Restore(from, project, &effective);
}

uint64_t SavedJobs::BytesOf(const Submission& submission) const {
  const v1::JobSpec& spec = submission.saved.job().effective_spec();
  const uint64_t data = DataBytes(scope_->options.data_root, spec.data());
  const auto parts = PartsOf(submission.origin.checkpoint, spec);
  if (!parts.ok()) return data;
  return data + BytesToCopy(submission.origin.checkpoint, *parts, scope_->options.data_root);
}

absl::Status SavedJobs::Copy(Submission* submission) {
  const fs::path& from = submission->origin.checkpoint;
  BATON_ASSIGN_OR_RETURN(const CheckpointParts parts,
                         PartsOf(from, submission->saved.job().effective_spec()));
  submission->room = nullptr;  // of an earlier try
  const uint64_t bytes = BytesToCopy(from, parts, scope_->options.data_root);
  BATON_ASSIGN_OR_RETURN(submission->room,
                         projects_->HoldJobBytes(submission->request.project(), bytes));
  submission->room_bytes = static_cast<int64_t>(bytes);
  return CopyCheckpoint(from, parts, submission->from, [this, submission] {
    return scope_->gate.closed() || (submission->gone != nullptr && submission->gone());
  });
}

// Copies the checkpoint before any check. So the checks see the files from which the job goes on,
// even if the checkpoint is deleted in favour of newer ones meanwhile.
absl::Status SavedJobs::Stage(Submission* submission) {
  constexpr int kTries = 3;  // a newer checkpoint may replace the newest one
  submission->from = submission->origin.checkpoint;
  if (submission->adopt) return absl::OkStatus();  // its checkpoints are in place
  BATON_ASSIGN_OR_RETURN(submission->copies_place,
                         waiting_->EnterCopies(submission->request.project()));
  for (int tries = 1;; ++tries) {
    submission->from = submission->staged->Stage(OwnCheckpoint(submission->saved));
    const absl::Status copied = Copy(submission);
    if (copied.ok()) MeasureCheckpoint(submission->from, &submission->measured);
    if (absl::IsInvalidArgument(copied) || absl::IsDataLoss(copied)) {
      return MakeError(copied.code(), "CHECKPOINT_FOLDER", copied.message());
    }
    if (!absl::IsNotFound(copied) || tries == kTries) return copied;
    BATON_RETURN_IF_ERROR(Find(submission));
  }
}

absl::StatusOr<store::v1::JobRow> SavedJobs::RowOf(const Submission& submission, v1::Job job,
                                                   int64_t order, const fs::path& folder) {
  store::v1::JobRow saved = submission.saved;
  submission.PlaceCopies(folder, saved.mutable_job()->mutable_effective_spec());
  std::vector<v1::Checkpoint> checkpoints = {
      CheckpointAt(folder / OwnCheckpoint(saved), saved, submission.measured)};
  if (submission.adopt) {
    BATON_ASSIGN_OR_RETURN(
        checkpoints, AdoptCheckpoints(folder, submission.origin.checkpoint, saved.job().step()));
  }
  *job.mutable_data_files() = submission.data_files;
  for (v1::DataFilesSummary& list : *job.mutable_data_files()) {
    // The files of the first job no longer have its overlong prompts, so its count is added.
    for (const v1::DataFilesSummary& before : saved.job().data_files()) {
      if (before.list() != list.list()) continue;
      list.set_overlong_prompts(list.overlong_prompts() + before.overlong_prompts());
    }
  }
  for (v1::Checkpoint& checkpoint : checkpoints) {
    *checkpoint.mutable_create_time() = job.create_time();
  }
  store::v1::JobRow row = GoOnFrom(saved, job, checkpoints.back(), order);
  for (v1::Checkpoint& kept : checkpoints) {
    if (row.learning().has_best() && kept.step() == row.learning().best_step()) kept.set_best(true);
  }
  if (!submission.adopt || submission.request.has_changes()) {
    // A new job, perhaps with other settings: the reason for which the first job ended does not
    // apply to it.
    const bool has_best = std::any_of(checkpoints.begin(), checkpoints.end(),
                                      [](const v1::Checkpoint& kept) { return kept.best(); });
    ForgetEnding(has_best, row.mutable_learning());
  }
  if (!submission.adopt) row.set_worked_seconds(0);
  *row.mutable_saved_learning() = row.learning();
  row.mutable_checkpoints()->Assign(checkpoints.begin(), checkpoints.end());
  return row;
}

}  // namespace baton::controller
