// Controller: jobs that go on from the folder of a checkpoint.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "controller/access/caller.h"
#include "controller/core/check_row.h"
#include "controller/core/roles.h"
#include "controller/core/step_size.h"
#include "controller/runtime/checkpoint_files.h"
#include "controller/runtime/controller.h"
#include "controller/runtime/folders.h"
#include "controller/runtime/job_folders.h"
#include "google/protobuf/util/json_util.h"
#include "sdk/base/status_macros.h"
#include "sdk/rpc/error.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;

absl::Status FolderError(absl::StatusCode code, const fs::path& folder, absl::string_view what) {
  return MakeError(code, "CHECKPOINT_FOLDER", absl::StrCat(folder.string(), " ", what));
}

absl::Status NoCheckpoint(const fs::path& folder, absl::string_view file) {
  std::string what = absl::StrCat("is not a checkpoint: it has no ", file,
                                  " (a checkpoint is a folder JOB/checkpoints/step-N)");
  const auto others = FindCheckpoints(folder.parent_path().parent_path());
  if (!others.empty()) {
    absl::StrAppend(&what, "; the newest complete one there is ", others.back().path.string());
  }
  return FolderError(absl::StatusCode::kNotFound, folder, what);
}

absl::StatusOr<store::v1::JobRow> ReadJobOf(const fs::path& checkpoint) {
  std::error_code code;
  for (const char* file : {"job.json", "files.json"}) {
    if (!fs::is_regular_file(checkpoint / file, code)) return NoCheckpoint(checkpoint, file);
  }
  std::ifstream in(checkpoint / "job.json");
  const std::string json((std::istreambuf_iterator<char>(in)), {});
  store::v1::JobRow row;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;  // of a later release
  if (!google::protobuf::util::JsonStringToMessage(json, &row, options).ok() ||
      !row.job().has_effective_spec()) {
    return FolderError(absl::StatusCode::kDataLoss, checkpoint,
                       "has a job.json that cannot be read");
  }
  Upgrade(row);
  if (const absl::Status good = CheckRow(row); !good.ok()) {
    return FolderError(absl::StatusCode::kDataLoss, checkpoint,
                       absl::StrCat("has a job.json that no controller wrote: ", good.message()));
  }
  return row;
}

v1::Checkpoint CheckpointAt(const fs::path& path, const store::v1::JobRow& saved) {
  v1::Checkpoint checkpoint;
  checkpoint.set_step(saved.job().step());
  checkpoint.set_path(path.string());
  checkpoint.set_policy_version(saved.job().policy_version());
  return checkpoint;
}

}  // namespace

absl::StatusOr<Origin> Controller::FindOrigin(const std::string& folder,
                                              const std::string& project) const {
  fs::path given =
      absl::StartsWith(folder, "/") ? folder : absl::StrCat(options_.data_root, "/", folder);
  BATON_RETURN_IF_ERROR(paths_.Check(given.string(), project));
  std::error_code code;
  given = fs::weakly_canonical(given, code);
  if (code) return FolderError(absl::StatusCode::kNotFound, folder, "cannot be read");
  Origin origin;
  origin.checkpoint = given;
  if (!fs::exists(given / "job.json", code) && fs::is_directory(given / "checkpoints", code)) {
    const auto found = FindCheckpoints(given);
    if (found.empty()) {
      return FolderError(absl::StatusCode::kNotFound, given, "holds no complete checkpoint");
    }
    origin.checkpoint = found.back().path;
  }
  BATON_RETURN_IF_ERROR(paths_.CheckFolder(origin.checkpoint.string(), project));
  // jobs/PROJECT/JOB/checkpoints/step-N, of no job of this controller: that job's rows are lost.
  const fs::path jobs =
      fs::weakly_canonical(absl::StrCat(options_.data_root, "/jobs/", project), code);
  const fs::path inside = origin.checkpoint.lexically_relative(jobs);
  const std::string id = inside.empty() ? "" : inside.begin()->string();
  if (!access::ValidId(id) || std::distance(inside.begin(), inside.end()) != 3) return origin;
  absl::MutexLock lock(&mu_);
  if (jobs_.count(FullJobName(id, project)) == 0) origin.lost_job = id;
  return origin;
}

// The lost job's own checkpoints up to this one, oldest first.
absl::StatusOr<std::vector<v1::Checkpoint>> Controller::AdoptCheckpoints(const fs::path& folder,
                                                                         const fs::path& chosen,
                                                                         int64_t step) const {
  std::vector<v1::Checkpoint> out;
  for (const FoundCheckpoint& found : FindCheckpoints(folder)) {
    if (found.step > step) continue;
    const auto saved = ReadJobOf(found.path);
    if (!saved.ok() || saved->job().step() != found.step) continue;  // it stays where it is
    out.push_back(CheckpointAt(found.path, *saved));
  }
  std::error_code code;
  if (!out.empty() && fs::equivalent(out.back().path(), chosen, code)) return out;
  return FolderError(absl::StatusCode::kInvalidArgument, chosen,
                     absl::StrCat("is of step ", step, " and is not called step-", step,
                                  "; rename it, or give the job another name"));
}

absl::Status Controller::FindSaved(Submission* submission) const {
  const v1::CreateJobRequest& request = submission->request;
  const std::string& project = request.project();
  BATON_ASSIGN_OR_RETURN(submission->origin, FindOrigin(request.checkpoint(), project));
  const std::string& lost = submission->origin.lost_job;
  submission->adopt =
      !lost.empty() && (request.job_id().empty() ||
                        FullJobName(request.job_id(), project) == FullJobName(lost, project));
  BATON_ASSIGN_OR_RETURN(submission->saved, ReadJobOf(submission->origin.checkpoint));
  return absl::OkStatus();
}

absl::Status Controller::ReadSaved(Submission* submission) {
  const fs::path& from = submission->origin.checkpoint;
  const std::string& project = submission->request.project();
  v1::JobSpec& effective = *submission->saved.mutable_job()->mutable_effective_spec();
  if (const std::string path = effective.model().path();
      !path.empty() && !(submission->adopt && ResolveModel(path, project).ok())) {
    submission->copies_model = true;  // what it began with need not be on this machine
    effective.mutable_model()->set_path((from / "actor").string());
  }
  BATON_RETURN_IF_ERROR(RestoreUploads(from, project, &effective));
  auto violations = CheckFiles(&effective, project, nullptr);
  CheckStepSize(effective, submission->saved.job().dataflow(), LimitsOf(project), &violations);
  return violations.empty() ? absl::OkStatus() : MakeSpecError(violations);
}

absl::StatusOr<store::v1::JobRow> Controller::FromCheckpoint(const Submission& submission,
                                                             v1::Job job, int64_t order,
                                                             StagedFolder* staged) {
  const fs::path& from = submission.origin.checkpoint;
  store::v1::JobRow saved = submission.saved;
  if (submission.copies_model) {
    std::error_code code;
    const std::string copied =
        fs::exists(staged->Final("model"), code) ? "model-" + job.uid() : "model";
    BATON_RETURN_IF_ERROR(LinkFolder(from / "actor", staged->Stage(copied)));
    saved.mutable_job()->mutable_effective_spec()->mutable_model()->set_path(
        staged->Final(copied).string());
  }
  const int64_t step = saved.job().step();
  const std::string own = absl::StrCat("checkpoints/step-", step);
  std::vector<v1::Checkpoint> checkpoints = {CheckpointAt(staged->Final(own), saved)};
  if (submission.adopt) {
    BATON_ASSIGN_OR_RETURN(checkpoints, AdoptCheckpoints(staged->Final(""), from, step));
  } else {
    BATON_RETURN_IF_ERROR(LinkFolder(from, staged->Stage(own)));
  }
  for (v1::Checkpoint& checkpoint : checkpoints) {
    *checkpoint.mutable_create_time() = job.create_time();
  }
  store::v1::JobRow row = GoOnFrom(saved, job, checkpoints.back(), order);
  row.mutable_checkpoints()->Assign(checkpoints.begin(), checkpoints.end());
  return row;
}

// A job's id: the given one, that of the lost job whose folder is given, or a new one.
absl::StatusOr<std::string> Controller::ChooseName(const v1::CreateJobRequest& request,
                                                   const std::string& project, const char* kind,
                                                   int64_t order, const Origin& origin) {
  if (!request.job_id().empty()) return FreeName(request.job_id(), project, origin);
  if (!origin.lost_job.empty()) return FreeName(origin.lost_job, project, origin);
  while (true) {  // after the store was lost, numbers begin again and folders are there
    auto name = FreeName(absl::StrCat(kind, "-", order), project, origin);
    if (name.ok() || !absl::IsAlreadyExists(name.status())) return name;
    ++order;
  }
}

absl::StatusOr<std::string> Controller::FreeName(const std::string& id, const std::string& project,
                                                 const Origin& origin) {
  if (!access::ValidId(id)) {
    return MakeError(absl::StatusCode::kInvalidArgument, "NAME_INVALID",
                     absl::StrCat("job id '", id, "' is not 1-63 characters of a-z, 0-9 and '-'"));
  }
  const std::string name = FullJobName(id, project);
  {
    absl::MutexLock lock(&mu_);
    if (jobs_.count(name) > 0) {
      return MakeError(absl::StatusCode::kAlreadyExists, "JOB_EXISTS",
                       absl::StrCat("job '", id, "' exists; choose another name, or `baton delete ",
                                    id, "` when it is not needed any more"),
                       {{"job", name}});
    }
  }
  const fs::path folder = JobRuntime::Directory(options_.data_root, name);
  std::error_code code;
  const bool taken = fs::exists(fs::symlink_status(folder, code)) && !fs::is_empty(folder, code);
  if (!taken || origin.lost_job == id) return name;
  const bool resumable = !FindCheckpoints(folder).empty();
  return MakeError(absl::StatusCode::kAlreadyExists, "JOB_FOLDER",
                   absl::StrCat("the folder ", folder.string(),
                                " is of a job that this controller does not know",
                                resumable ? absl::StrCat("; `baton resume --from ", folder.string(),
                                                         "` goes on with it under its name")
                                          : ", and holds no complete checkpoint; move it away",
                                ", or choose another name"),
                   {{"job", name}, {"folder", folder.string()}});
}

}  // namespace baton::controller
