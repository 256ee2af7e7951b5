// Controller: quotas and shares of projects.
#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/access/caller.h"
#include "controller/runtime/controller/controller.h"
#include "controller/runtime/rows/tables.h"
#include "controller/spec/spec.h"
#include "sdk/base/mutant.h"
#include "sdk/base/status_macros.h"
#include "sdk/rpc/error.h"

namespace baton::controller {
namespace {

constexpr int kMaxWeight = 1000;

absl::Status Check(const v1::Project& project) {
  const auto wrong = [](const std::string& message) {
    return MakeError(absl::StatusCode::kInvalidArgument, "PROJECT_SPEC", message);
  };
  if (!access::ValidId(project.project())) {
    return wrong(absl::StrCat(
        "'", project.project(),
        "' is not the name of a project: use a-z, 0-9 and '-', at most 63 characters"));
  }
  if (project.weight() < 0 || project.weight() > kMaxWeight) {
    return wrong(absl::StrCat("weight is ", project.weight(), ", not 1 to ", kMaxWeight));
  }
  for (const int limit : {project.max_jobs(), project.max_workers(), project.max_watches()}) {
    if (limit < 0) return wrong("a limit is at least 1, or 0 for none");
  }
  for (const int64_t limit : {project.max_step_responses(), project.max_step_tokens()}) {
    if (limit < 0) return wrong("a limit of a step is at least 1, or 0 for the controller's own");
  }
  if (project.has_max_priority() && std::abs(project.max_priority()) > kMaxPriority) {
    return wrong(absl::StrCat("max_priority is ", project.max_priority(), ", not -", kMaxPriority,
                              " to ", kMaxPriority));
  }
  if (project.max_ended_jobs() < 0) {
    return wrong("the limit of ended jobs is at least 1, or 0 for the controller's own");
  }
  if (project.max_upload_bytes() < 0) {
    return wrong("the limit of uploads is at least 1 byte, or 0 for the controller's own");
  }
  if (project.max_job_bytes() < 0) {
    return wrong("the limit of jobs' folders is at least 1 byte, or 0 for the controller's own");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Controller::ReadProjects() {
  BATON_ASSIGN_OR_RETURN(const auto rows, store_->Scan(kProjectTable, {}));
  absl::MutexLock lock(&mu_);
  for (const store::Row& row : rows) {
    v1::Project project;
    if (!project.ParseFromString(row.value)) {
      return absl::DataLossError(absl::StrCat("row ", row.key, " of projects is damaged"));
    }
    cluster_->core().SetProject(project);
    projects_[row.key] = std::move(project);
  }
  return absl::OkStatus();
}

void Controller::SetProject(v1::Project project, Callback<v1::Project> done) {
  if (const absl::Status status = Check(project); !status.ok()) return done(status);
  if (project.weight() == 0) project.set_weight(1);
  project.clear_job_bytes();  // only answers have them
  project.clear_upload_bytes();
  store_->Commit({{kProjectTable, project.project(), project.SerializeAsString()}},
                 [this, project, done = std::move(done)](const absl::Status& status) {
                   if (!status.ok()) return done(status);
                   {
                     absl::MutexLock lock(&mu_);
                     projects_[project.project()] = project;
                   }
                   cluster_->Post([this, project] {
                     cluster_->core().SetProject(project);
                     cluster_->Apply(cluster_->core().OnTick(cluster_->now()));
                   });
                   done(project);
                 });
}

v1::Project Controller::ProjectNamed(const std::string& project) const {
  absl::MutexLock lock(&mu_);
  const auto it = projects_.find(project);
  if (it != projects_.end()) return it->second;
  v1::Project never_set;
  never_set.set_project(project);
  never_set.set_weight(1);
  return never_set;
}

StepLimits Controller::LimitsOf(const std::string& project) const {
  const v1::Project own = ProjectNamed(project);
  StepLimits limits = options_.step_limits;
  if (own.max_step_responses() > 0) limits.responses = own.max_step_responses();
  if (own.max_step_tokens() > 0) limits.tokens = own.max_step_tokens();
  return limits;
}

Controller::Violations Controller::CheckPriority(const v1::JobSpec& effective,
                                                 const std::string& project) const {
  const v1::Project own = ProjectNamed(project);
  if (!own.has_max_priority() || effective.priority() <= own.max_priority()) return {};
  v1::FieldViolation violation;
  violation.set_field("spec.priority");
  violation.set_description(absl::StrCat(effective.priority(), " is above ", own.max_priority(),
                                         ", the highest priority of project ", project,
                                         " (`baton project set ", project, " --max-priority`)"));
  return {violation};
}

int64_t Controller::UploadLimitOf(const std::string& project) const {
  const int64_t own = ProjectNamed(project).max_upload_bytes();
  return own > 0 ? own : options_.max_upload_bytes;
}

DataLimits Controller::DataLimitsOf(const std::string& job) const {
  DataLimits limits;
  limits.bytes = options_.max_data_bytes;
  limits.memory_bytes = options_.max_data_memory_bytes;
  limits.steps = LimitsOf(access::ProjectOf(job));
  limits.steps.responses = std::max(limits.steps.responses, options_.step_limits.responses);
  limits.steps.tokens = std::max(limits.steps.tokens, options_.step_limits.tokens);
  return limits;
}

int64_t Controller::Unfinished(const std::string& project) const {
  int64_t unfinished = 0;
  for (const auto& [job, order] : jobs_.Below(FullJobName("", project))) {
    if (!IsTerminal(job->state()) || resuming_.count(job->name()) > 0) ++unfinished;
  }
  return unfinished;
}

// RESOURCE_EXHAUSTED also when as many of its jobs have ended as may be kept, or the folders of its
// jobs have as many bytes as they may.
absl::Status Controller::CheckNewJob(const std::string& project) const {
  BATON_RETURN_IF_ERROR(CheckJobQuota(project));
  const auto full = [&project](const char* reason, const std::string& what, const char* option) {
    return MakeError(
        absl::StatusCode::kResourceExhausted, reason,
        absl::StrCat("project ", project, " has ", what,
                     "; delete those that are not needed any more, for example with `baton jobs "
                     "prune --older-than 30d`, or have the limit raised with `baton project set ",
                     project, " ", option, " N`"));
  };
  const int64_t bytes = folder_bytes_.OfProject(project), most_bytes = JobBytesLimitOf(project);
  if (most_bytes > 0 && bytes >= most_bytes && !Mutant("full-folders-take-jobs")) {
    return full("QUOTA_JOB_BYTES",
                absl::StrCat(bytes, " bytes in the folders of its jobs, of at most ", most_bytes),
                "--max-job-bytes");
  }
  const int64_t own = ProjectNamed(project).max_ended_jobs();
  const int64_t limit = own > 0 ? own : options_.max_ended_jobs;
  const int64_t ended = ended_->JobsOf(project) - Unfinished(project);
  if (limit == 0 || ended < limit || Mutant("ended-jobs-without-limit")) return absl::OkStatus();
  return full("QUOTA_ENDED_JOBS", absl::StrCat(ended, " jobs that have ended, of at most ", limit),
              "--max-ended-jobs");
}

int64_t Controller::JobBytesLimitOf(const std::string& project) const {
  const int64_t own = ProjectNamed(project).max_job_bytes();
  return own > 0 ? own : options_.max_job_bytes;
}

absl::StatusOr<std::shared_ptr<void>> Controller::HoldJobBytes(const std::string& project,
                                                               uint64_t bytes) {
  const int64_t most = std::numeric_limits<int64_t>::max();
  return folder_bytes_.Hold(project,
                            static_cast<int64_t>(std::min<uint64_t>(bytes, uint64_t(most))),
                            JobBytesLimitOf(project));
}

// The folders of other jobs change when a checkpoint is saved or deleted, which touches them.
void Controller::TouchActiveJobs() {
  constexpr absl::Duration kLookEvery = absl::Minutes(1);
  if (cluster_->now() < folders_looked_at_ + kLookEvery) return;
  folders_looked_at_ = cluster_->now();
  for (const auto& [job, order] : jobs_.Below("")) {
    if (IsActive(job->state())) folder_bytes_.Touch(job->name());
  }
}

// RESOURCE_EXHAUSTED when the project has as many unfinished jobs as it may.
absl::Status Controller::CheckJobQuota(const std::string& project) const {
  const int limit = ProjectNamed(project).max_jobs();
  if (limit == 0) return absl::OkStatus();
  const int64_t unfinished = Unfinished(project);
  if (unfinished < limit) return absl::OkStatus();
  return MakeError(absl::StatusCode::kResourceExhausted, "QUOTA_JOBS",
                   absl::StrCat("project ", project, " has ", unfinished,
                                " jobs that have not ended, of at most ", limit,
                                "; cancel one or wait for one to end"));
}

}  // namespace baton::controller
