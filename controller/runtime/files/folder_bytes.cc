#include "controller/runtime/files/folder_bytes.h"

#include <sys/stat.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;

// projects/P/jobs/J -> P, J.
std::pair<std::string, std::string> PartsOfName(const std::string& job) {
  const size_t slash = job.find('/', 9), name = job.rfind('/');
  if (!absl::StartsWith(job, "projects/") || slash == std::string::npos) return {};
  return {job.substr(9, slash - 9), job.substr(name + 1)};
}

}  // namespace

FolderBytes::FolderBytes(fs::path jobs) : jobs_(std::move(jobs)) {}

FolderBytes::~FolderBytes() {
  {
    absl::MutexLock lock(&state_->mu);
    state_->stopping = true;
  }
  if (thread_.joinable()) thread_.join();
}

void FolderBytes::Start() {
  {
    absl::MutexLock lock(&state_->mu);
    state_->all = true;
  }
  thread_ = std::thread([this] { Work(); });
}

void FolderBytes::Touch(const std::string& job, int64_t at_least) {
  const auto [project, id] = PartsOfName(job);
  if (id.empty()) return;
  absl::MutexLock lock(&state_->mu);
  if (at_least > 0) {
    int64_t& bytes = state_->bytes[project][id];
    bytes = std::max(bytes, at_least);
  }
  state_->changed.insert(absl::StrCat(project, "/", id));
}

void FolderBytes::Work() {
  State& state = *state_;
  const auto wanted = [&state]() ABSL_SHARED_LOCKS_REQUIRED(state.mu) {
    return state.stopping || state.all || !state.changed.empty();
  };
  while (true) {
    std::string next;
    bool all = false;
    {
      absl::MutexLock lock(&state.mu);
      state.looking = false;
      state.mu.Await(absl::Condition(&wanted));
      if (state.stopping) return;
      state.looking = true;
      all = std::exchange(state.all, false);
      if (!all) next = *state.changed.begin();
      if (!all) state.changed.erase(state.changed.begin());
    }
    if (all) {
      List();
      continue;
    }
    const int64_t bytes = Count(jobs_ / next);
    const size_t slash = next.find('/');
    absl::MutexLock lock(&state.mu);
    if (bytes < 0) return;
    auto& of_project = state.bytes[next.substr(0, slash)];
    if (bytes > 0) {
      of_project[next.substr(slash + 1)] = bytes;
    } else {
      of_project.erase(next.substr(slash + 1));
    }
    if (of_project.empty()) state.bytes.erase(next.substr(0, slash));
  }
}

// Folders whose names begin with a dot are on their way in or out.
void FolderBytes::List() {
  std::error_code code;
  for (fs::directory_iterator project(jobs_, code), end; !code && project != end;
       project.increment(code)) {
    std::error_code bad;
    for (fs::directory_iterator job(project->path(), bad); !bad && job != end; job.increment(bad)) {
      const std::string name = job->path().filename().string();
      if (absl::StartsWith(name, ".")) continue;
      absl::MutexLock lock(&state_->mu);
      if (state_->stopping) return;
      state_->changed.insert(absl::StrCat(project->path().filename().string(), "/", name));
    }
  }
}

int64_t FolderBytes::Count(const fs::path& folder) const {
  int64_t bytes = 0;
  std::error_code code;
  for (fs::recursive_directory_iterator entry(folder, code), end; !code && entry != end;
       entry.increment(code)) {
    {
      absl::MutexLock lock(&state_->mu);
      if (state_->stopping) return -1;
    }
    struct stat is = {};
    if (::lstat(entry->path().c_str(), &is) != 0) continue;  // it went meanwhile
    const int64_t names = S_ISDIR(is.st_mode) ? 1 : std::max<int64_t>(is.st_nlink, 1);
    bytes += int64_t{is.st_blocks} * 512 / names;
  }
  return bytes;
}

int64_t FolderBytes::Sum(const State& state, const std::string& project) {
  const auto held = state.held.find(project);
  int64_t bytes = held == state.held.end() ? 0 : held->second;
  const auto jobs = state.bytes.find(project);
  if (jobs == state.bytes.end()) return bytes;
  for (const auto& [job, of_job] : jobs->second) bytes += of_job;
  return bytes;
}

int64_t FolderBytes::OfProject(const std::string& project) const {
  absl::MutexLock lock(&state_->mu);
  return Sum(*state_, project);
}

int64_t FolderBytes::OfJob(const std::string& job) const {
  const auto [project, id] = PartsOfName(job);
  absl::MutexLock lock(&state_->mu);
  const auto jobs = state_->bytes.find(project);
  if (jobs == state_->bytes.end()) return 0;
  const auto found = jobs->second.find(id);
  return found == jobs->second.end() ? 0 : found->second;
}

std::set<std::string> FolderBytes::Projects() const {
  absl::MutexLock lock(&state_->mu);
  std::set<std::string> projects;
  for (const auto& [project, jobs] : state_->bytes) projects.insert(project);
  return projects;
}

absl::StatusOr<std::shared_ptr<void>> FolderBytes::Hold(const std::string& project, int64_t bytes,
                                                        int64_t limit) {
  absl::MutexLock lock(&state_->mu);
  const int64_t used = Sum(*state_, project);
  if (limit > 0 && (bytes > limit || used > limit - bytes)) {
    return MakeError(
        absl::StatusCode::kResourceExhausted, "QUOTA_JOB_BYTES",
        absl::StrCat("project ", project, " has ", used, " bytes in the folders of its jobs, and ",
                     bytes, " more would be over its limit of ", limit,
                     "; `baton delete` removes jobs that are not needed any more"));
  }
  state_->held[project] += bytes;
  return std::shared_ptr<void>(state_.get(), [state = state_, project, bytes](void*) {
    absl::MutexLock release(&state->mu);
    const auto it = state->held.find(project);
    it->second -= bytes;
    if (it->second == 0) state->held.erase(it);
  });
}

void FolderBytes::Settle() {
  State& state = *state_;
  const auto settled = [&state]() ABSL_SHARED_LOCKS_REQUIRED(state.mu) {
    return !state.looking && !state.all && state.changed.empty();
  };
  absl::MutexLock lock(&state.mu);
  state.mu.Await(absl::Condition(&settled));
}

}  // namespace baton::controller
