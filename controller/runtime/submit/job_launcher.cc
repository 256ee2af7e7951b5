#include "controller/runtime/submit/job_launcher.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/access/caller.h"
#include "controller/runtime/cluster/job_order.h"
#include "controller/runtime/job_files/job_folders.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {

namespace fs = std::filesystem;

std::string JobLauncher::NewUid() {
  return absl::StrCat(absl::Hex(absl::ToUnixNanos(scope_->clock.Now())), "-",
                      next_uid_.fetch_add(1));
}

std::unique_ptr<StagedFolder> JobLauncher::NewStaged(const std::string& project,
                                                     const std::string& uid) const {
  return std::make_unique<StagedFolder>(absl::StrCat(scope_->options.data_root, "/jobs/", project),
                                        uid);
}

absl::StatusOr<std::string> JobLauncher::ChooseName(const std::string& id,
                                                    const std::string& project, const char* kind,
                                                    int64_t order, const Origin& origin) {
  if (!id.empty()) return FreeName(id, project, origin);
  if (!origin.lost_job.empty()) return FreeName(origin.lost_job, project, origin);
  while (true) {  // after the store was lost, numbers start again, and folders exist
    auto name = FreeName(absl::StrCat(kind, "-", order), project, origin);
    if (name.ok() || !absl::IsAlreadyExists(name.status())) return name;
    ++order;
  }
}

absl::StatusOr<std::string> JobLauncher::FreeName(const std::string& id, const std::string& project,
                                                  const Origin& origin) {
  if (!access::ValidId(id)) {
    return MakeError(absl::StatusCode::kInvalidArgument, "NAME_INVALID",
                     absl::StrCat("job id '", id, "' is not 1-63 characters of a-z, 0-9 and '-'"));
  }
  const std::string name = FullJobName(id, project);
  if (scope_->ended->Exists(name)) {
    return MakeError(absl::StatusCode::kAlreadyExists, "JOB_EXISTS",
                     absl::StrCat("job '", id, "' exists; choose another name, or `baton delete ",
                                  id, "` when it is not needed any more"),
                     {{"job", name}});
  }
  const fs::path folder = scope_->FolderOf(name);
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

void JobLauncher::Launch(JobCore core, int64_t order, const Request& request,
                         std::vector<store::Write> extra, Callback<v1::Job> done) {
  const auto job = std::make_shared<JobRuntime>(&scope_->context, std::move(core), 1,
                                                /*stored=*/false);
  scope_->jobs.Add(job, order);
  scope_->ended->Count(job->name(), 1);
  std::string made_by;
  if (!request.id.empty()) {
    made_by = Requests::KeyOf(request);
    extra.push_back(requests_->RowOf(request, job->name(), nullptr));
  }
  for (store::Write& write : RowsOfOrder(job->name(), order, made_by)) {
    extra.push_back(std::move(write));
  }
  job->Start(std::move(extra), [this, job, done = std::move(done)] {
    // Before the caller learns of the job: from now on no start may remove its folder as
    // unfinished.
    scope_->OnAdmission([this, made = job->Snapshot(), done] {
      Committed(scope_->FolderOf(made.name()));
      done(made);
    });
  });
}

}  // namespace baton::controller
