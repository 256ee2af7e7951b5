#include "controller/runtime/submit/projects.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/access/caller.h"
#include "controller/runtime/rows/tables.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/messages/settings.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {
namespace {

constexpr int kMaxWeight = 1000;

absl::Status CheckSettings(const v1::Project& project) {
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
  const Bounds priority = BoundsOf(SettingOf<v1::JobSpec>(v1::JobSpec::kPriorityFieldNumber));
  if (!NumberProblem(project.max_priority(), priority).empty()) {
    return wrong(
        absl::StrCat("max_priority is ", project.max_priority(), ", not ", BoundsText(priority)));
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

absl::Status FullError(const char* reason, const std::string& project, const std::string& what,
                       const char* option) {
  return MakeError(
      absl::StatusCode::kResourceExhausted, reason,
      absl::StrCat("project ", project, " has ", what,
                   "; delete those that are not needed any more, for example with `baton jobs "
                   "prune --older-than 30d`, or have the limit raised with `baton project set ",
                   project, " ", option, " N`"));
}

}  // namespace

absl::Status Projects::Read() {
  BATON_ASSIGN_OR_RETURN(const auto rows, scope_->store->Scan(kProjectTable, {}));
  absl::MutexLock lock(&mu_);
  for (const store::Row& row : rows) {
    v1::Project project;
    if (!project.ParseFromString(row.value)) {
      return absl::DataLossError(absl::StrCat("row ", row.key, " of projects is damaged"));
    }
    scope_->cluster->core().SetProject(project);
    projects_[row.key] = std::move(project);
  }
  return absl::OkStatus();
}

void Projects::Set(v1::Project project, Callback<v1::Project> done) {
  if (const absl::Status status = CheckSettings(project); !status.ok()) return done(status);
  if (project.weight() == 0) project.set_weight(1);
  project.clear_job_bytes();  // only answers have them
  project.clear_upload_bytes();
  scope_->store->Commit(
      {{kProjectTable, project.project(), project.SerializeAsString()}},
      [this, project, done = std::move(done)](const absl::Status& status) {
        if (!status.ok()) return done(status);
        {
          absl::MutexLock lock(&mu_);
          projects_[project.project()] = project;
        }
        scope_->cluster->Post([this, project] {
          scope_->cluster->core().SetProject(project);
          scope_->cluster->Apply(scope_->cluster->core().OnTick(scope_->cluster->now()));
        });
        done(project);
      });
}

v1::Project Projects::Named(const std::string& project) const {
  absl::MutexLock lock(&mu_);
  const auto it = projects_.find(project);
  if (it != projects_.end()) return it->second;
  v1::Project never_set;
  never_set.set_project(project);
  never_set.set_weight(1);
  return never_set;
}

StepLimits Projects::StepLimitsOf(const std::string& project) const {
  const v1::Project own = Named(project);
  StepLimits limits = scope_->options.step_limits;
  if (own.max_step_responses() > 0) limits.responses = own.max_step_responses();
  if (own.max_step_tokens() > 0) limits.tokens = own.max_step_tokens();
  return limits;
}

std::vector<v1::FieldViolation> Projects::CheckPriority(const v1::JobSpec& effective,
                                                        const std::string& project) const {
  const v1::Project own = Named(project);
  if (!own.has_max_priority() || effective.priority() <= own.max_priority()) return {};
  v1::FieldViolation violation;
  violation.set_field("spec.priority");
  violation.set_description(absl::StrCat(effective.priority(), " is above ", own.max_priority(),
                                         ", the highest priority of project ", project,
                                         " (`baton project set ", project, " --max-priority`)"));
  return {violation};
}

int64_t Projects::UploadLimitOf(const std::string& project) const {
  const int64_t own = Named(project).max_upload_bytes();
  return own > 0 ? own : scope_->options.max_upload_bytes;
}

DataLimits Projects::DataLimitsOf(const std::string& job) const {
  DataLimits limits;
  limits.bytes = scope_->options.max_data_bytes;
  limits.memory_bytes = scope_->options.max_data_memory_bytes;
  limits.steps = StepLimitsOf(access::ProjectOf(job));
  limits.steps.responses = std::max(limits.steps.responses, scope_->options.step_limits.responses);
  limits.steps.tokens = std::max(limits.steps.tokens, scope_->options.step_limits.tokens);
  return limits;
}

std::set<std::string> Projects::Names() const {
  std::set<std::string> names = scope_->folder_bytes.Projects();
  absl::MutexLock lock(&mu_);
  for (const auto& [name, project] : projects_) names.insert(name);
  return names;
}

absl::Status Projects::CheckNewJob(const std::string& project) const {
  BATON_RETURN_IF_ERROR(CheckUnfinished(project));
  BATON_RETURN_IF_ERROR(CheckJobBytes(project, 0));
  return CheckEnded(project);
}

absl::StatusOr<std::shared_ptr<void>> Projects::EnterNewJob(const std::string& project,
                                                            CallerGone gone) {
  BATON_RETURN_IF_ERROR(CheckNewJob(project));
  absl::MutexLock lock(&entering_->mu);
  const auto place = entering_->places.emplace(project, std::move(gone));
  return std::shared_ptr<void>(entering_.get(), [entering = entering_, place](void*) {
    absl::MutexLock lock(&entering->mu);
    entering->places.erase(place);
  });
}

absl::Status Projects::CheckRoom(const std::string& project, int64_t own) const {
  BATON_RETURN_IF_ERROR(CheckJobBytes(project, own));
  return CheckEnded(project);
}

absl::Status Projects::BeginResume(const JobRuntime& job) {
  const std::string& name = job.name();
  if (IsTerminal(job.state()) && resuming_.count(name) == 0) {  // one more unfinished job
    BATON_RETURN_IF_ERROR(CheckUnfinished(access::ProjectOf(name)));
  }
  resuming_.insert(name);
  return absl::OkStatus();
}

void Projects::EndResume(const std::string& job) {
  if (const auto it = resuming_.find(job); it != resuming_.end()) resuming_.erase(it);
}

int64_t Projects::PlacesOf(const std::string& project) const {
  absl::MutexLock lock(&entering_->mu);
  const auto [begin, end] = entering_->places.equal_range(project);
  return std::count_if(begin, end, [](const auto& place) {
    const CallerGone& gone = place.second;
    return gone == nullptr || !gone();
  });
}

int64_t Projects::Unfinished(const std::string& project) const {
  int64_t unfinished = 0;
  for (const auto& [job, order] : scope_->jobs.Below(FullJobName("", project))) {
    if (!IsTerminal(job->state()) || resuming_.count(job->name()) > 0) ++unfinished;
  }
  return unfinished;
}

absl::Status Projects::CheckUnfinished(const std::string& project) const {
  const int limit = Named(project).max_jobs();
  if (limit == 0) return absl::OkStatus();
  const int64_t unfinished = Unfinished(project);
  const int64_t checked = PlacesOf(project);
  if (unfinished + checked < limit) return absl::OkStatus();
  const std::string submissions =
      checked == 0 ? "" : absl::StrCat(" and ", checked, " submissions that are being checked");
  return MakeError(
      absl::StatusCode::kResourceExhausted, "QUOTA_JOBS",
      absl::StrCat("project ", project, " has ", unfinished, " jobs that have not ended",
                   submissions, ", of at most ", limit, "; cancel one or wait for one to end"));
}

absl::Status Projects::CheckJobBytes(const std::string& project, int64_t own) const {
  const int64_t bytes = scope_->folder_bytes.OfProject(project) - own;
  const int64_t most = JobBytesLimitOf(project);
  if (most == 0 || bytes < most) return absl::OkStatus();
  return FullError("QUOTA_JOB_BYTES", project,
                   absl::StrCat(bytes, " bytes in the folders of its jobs, of at most ", most),
                   "--max-job-bytes");
}

absl::Status Projects::CheckEnded(const std::string& project) const {
  const int64_t own = Named(project).max_ended_jobs();
  const int64_t limit = own > 0 ? own : scope_->options.max_ended_jobs;
  const int64_t ended = scope_->ended->JobsOf(project) - Unfinished(project);
  if (limit == 0 || ended < limit) return absl::OkStatus();
  return FullError("QUOTA_ENDED_JOBS", project,
                   absl::StrCat(ended, " jobs that have ended, of at most ", limit),
                   "--max-ended-jobs");
}

int64_t Projects::JobBytesLimitOf(const std::string& project) const {
  const int64_t own = Named(project).max_job_bytes();
  return own > 0 ? own : scope_->options.max_job_bytes;
}

absl::StatusOr<std::shared_ptr<void>> Projects::HoldJobBytes(const std::string& project,
                                                             uint64_t bytes) {
  const int64_t most = std::numeric_limits<int64_t>::max();
  return scope_->folder_bytes.Hold(project,
                                   static_cast<int64_t>(std::min<uint64_t>(bytes, uint64_t(most))),
                                   JobBytesLimitOf(project));
}

// The folders of other jobs change when a checkpoint is saved or deleted, which touches them.
void Projects::TouchActiveJobs() {
  constexpr absl::Duration kLookEvery = absl::Minutes(1);
  if (scope_->cluster->now() < folders_looked_at_ + kLookEvery) return;
  folders_looked_at_ = scope_->cluster->now();
  for (const auto& [job, order] : scope_->jobs.Below("")) {
    if (IsActive(job->state())) scope_->folder_bytes.Touch(job->name());
  }
}

}  // namespace baton::controller
