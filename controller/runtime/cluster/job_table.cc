#include "controller/runtime/cluster/job_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace baton::controller {

std::string FullJobName(const std::string& name, const std::string& project) {
  if (name.rfind("projects/", 0) == 0) return name;
  return absl::StrCat("projects/", project.empty() ? "default" : project, "/jobs/", name);
}

JobTable::Entry JobTable::Get(const std::string& name) const {
  absl::MutexLock lock(&mu_);
  const auto it = jobs_.find(name);
  return it == jobs_.end() ? Entry() : it->second;
}

std::shared_ptr<JobRuntime> JobTable::Find(const std::string& name) const {
  Entry found = Get(name);
  return found.job != nullptr && found.job->visible() ? std::move(found.job) : nullptr;
}

std::shared_ptr<JobRuntime> JobTable::FindOf(const TaskToken& token) const {
  auto job = Find(token.job.substr(0, token.job.find('#')));
  return job != nullptr && job->token_name() == token.job ? job : nullptr;
}

std::vector<JobTable::Entry> JobTable::Below(const std::string& prefix) const {
  std::vector<Entry> found;
  absl::MutexLock lock(&mu_);
  for (auto it = jobs_.lower_bound(prefix);
       it != jobs_.end() && absl::StartsWith(it->first, prefix); ++it) {
    found.push_back(it->second);
  }
  return found;
}

int64_t JobTable::next_order() const {
  absl::MutexLock lock(&mu_);
  return next_order_;
}

void JobTable::Add(std::shared_ptr<JobRuntime> job, int64_t order) {
  absl::MutexLock lock(&mu_);
  const std::string& name = job->name();
  jobs_[name] = {std::move(job), order};
  next_order_ = std::max(next_order_, order + 1);
}

std::shared_ptr<JobRuntime> JobTable::AddIfAbsent(std::shared_ptr<JobRuntime> job, int64_t order) {
  absl::MutexLock lock(&mu_);
  const auto [it, fresh] = jobs_.try_emplace(job->name());
  if (fresh) it->second = {std::move(job), order};
  next_order_ = std::max(next_order_, order + 1);
  return it->second.job;
}

void JobTable::KeepOrder(int64_t order) {
  absl::MutexLock lock(&mu_);
  next_order_ = std::max(next_order_, order + 1);
}

// All pending work of a job holds the job: posts, commits, timers, calls. Under the lock nothing
// new can hold it, because jobs are reached only through the table.
JobTable::Ended JobTable::TakeEnded() {
  Ended ended;
  absl::MutexLock lock(&mu_);
  for (auto it = jobs_.begin(); it != jobs_.end();) {
    std::shared_ptr<JobRuntime>& job = it->second.job;
    if (!job->visible() || job->quarantined() || !IsTerminal(job->state())) {
      ++it;
    } else if (job.use_count() > 1) {
      ++ended.in_use;
      ++it;
    } else {
      ended.idle.push_back(std::move(job));
      it = jobs_.erase(it);
    }
  }
  return ended;
}

void JobTable::Erase(const std::string& name) {
  Entry erased;  // outlives the lock: the job may be destroyed with it
  absl::MutexLock lock(&mu_);
  const auto it = jobs_.find(name);
  if (it == jobs_.end()) return;
  erased = std::move(it->second);
  jobs_.erase(it);
}

std::vector<JobTable::Entry> JobTable::TakeAll() {
  std::vector<Entry> taken = Below("");
  absl::MutexLock lock(&mu_);
  jobs_.clear();
  return taken;
}

}  // namespace baton::controller
