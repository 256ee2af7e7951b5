#include "controller/runtime/cluster/ended_jobs.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "baton/store/v1/rows.pb.h"
#include "controller/access/caller.h"
#include "controller/runtime/rows/stored_job.h"
#include "controller/runtime/rows/tables.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {

absl::Status NoSuchJob(const std::string& name) {
  return MakeError(absl::StatusCode::kNotFound, "JOB_NOT_FOUND",
                   absl::StrCat("no job '", name, "'; `baton jobs` lists them"), {{"job", name}});
}

EndedJobs::EndedJobs(const RuntimeContext* context, JobTable* jobs, JobRestorer* restorer)
    : context_(context), jobs_(jobs), restorer_(restorer) {}

void EndedJobs::Find(const std::string& name, Found found) {
  std::shared_ptr<JobRuntime> job;
  {
    absl::MutexLock lock(&mu_);
    job = jobs_->Get(name).job;
    if (job == nullptr && calls_ < kMostWaiting) {
      ++calls_;
      std::vector<Found>& waiting = waiting_[name];
      waiting.push_back(std::move(found));
      if (waiting.size() == 1) queue_.push_back(name);
      return LoadNext();
    }
  }
  if (job == nullptr) {
    return found(MakeError(
        absl::StatusCode::kResourceExhausted, "JOBS_BUSY",
        absl::StrCat(kMostWaiting, " calls for jobs that have ended wait; try again later")));
  }
  if (!job->visible()) return found(NoSuchJob(name));
  found(std::move(job));
}

void EndedJobs::LoadNext() {
  while (!queue_.empty() && loading_ + in_memory_ < kMostLoaded) {
    ++loading_;
    context_->executors->PostRead([this, name = std::move(queue_.front())] {
      if (Load(name)) DropIdle();
    });
    queue_.pop_front();
  }
}

bool EndedJobs::Load(const std::string& name) {
  auto loaded = restorer_->Load(name);
  std::vector<Found> waiting;
  absl::StatusOr<std::shared_ptr<JobRuntime>> job = NoSuchJob(name);
  bool full = false;
  {
    absl::MutexLock lock(&mu_);
    waiting = std::move(waiting_.extract(name).mapped());
    calls_ -= waiting.size();
    --loading_;
    if (loaded.ok()) {
      job = jobs_->AddIfAbsent(loaded->job, loaded->order);  // another job may have begun
      if (*job == loaded->job) loaded->job->Start({}, nullptr);
      ++in_memory_;
    } else if (!absl::IsNotFound(loaded.status())) {
      job = loaded.status();
    }
    full = loading_ + in_memory_ >= kMostLoaded;
    LoadNext();
  }
  for (const Found& found : waiting) found(job);
  return full;
}

absl::StatusOr<v1::Job> EndedJobs::Describe(const std::string& name) const {
  if (const auto job = jobs_->Get(name).job; job != nullptr) {
    if (job->visible()) return job->Snapshot();
    return NoSuchJob(name);
  }
  BATON_ASSIGN_OR_RETURN(const auto stored, context_->store->Get(kJobTable, name));
  if (!stored.has_value()) return NoSuchJob(name);
  store::v1::JobRow row;
  if (!row.ParseFromString(*stored)) {
    return absl::DataLossError(absl::StrCat("the row of job ", name, " is damaged"));
  }
  v1::Job job = std::move(*row.mutable_job());
  BATON_RETURN_IF_ERROR(ReadSpec(*context_->store, name, &job));
  return job;
}

bool EndedJobs::Exists(const std::string& name) const {
  if (jobs_->Has(name)) return true;
  const auto stored = context_->store->Get(kJobTable, name);
  return !stored.ok() || stored->has_value();
}

void EndedJobs::DropIdle() {
  JobTable::Ended ended;  // destroyed without the lock
  absl::MutexLock lock(&mu_);
  ended = jobs_->TakeEnded();
  in_memory_ = ended.in_use;
  LoadNext();
}

void EndedJobs::Count(const std::string& job, int64_t more) {
  const std::string project = access::ProjectOf(job);
  absl::MutexLock lock(&mu_);
  if ((jobs_of_[project] += more) == 0) jobs_of_.erase(project);
}

int64_t EndedJobs::JobsOf(const std::string& project) const {
  absl::MutexLock lock(&mu_);
  const auto found = jobs_of_.find(project);
  return found == jobs_of_.end() ? 0 : found->second;
}

}  // namespace baton::controller
