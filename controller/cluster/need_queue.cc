#include "controller/cluster/need_queue.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace baton::controller {

std::string ProjectId(const std::string& job) {
  const std::vector<absl::string_view> parts = absl::StrSplit(job, '/');
  return parts.size() == 4 ? std::string(parts[1]) : "";
}

std::string NameForThoseOf(const std::string& project, const std::string& job) {
  if (ProjectId(job) != project) return "a job of another project";
  return absl::StrCat("job ", job.substr(job.rfind('/') + 1));
}

std::vector<std::string> RolesOfWorkerSlot(const std::string& roles) {
  return absl::StrSplit(roles, '+');
}

std::string WantedText(const std::map<std::string, int>& missing) {
  std::vector<std::string> parts;
  for (const auto& [roles, count] : missing) {
    if (count > 0) {
      parts.push_back(absl::StrCat(count, " ", roles, count == 1 ? " worker" : " workers"));
    }
  }
  return absl::StrJoin(parts, ", ");
}

int NeedQueue::Line::worker_slots() const {
  int sum = 0;
  for (const auto& [roles, count] : missing) sum += count;
  return sum;
}

void NeedQueue::Put(const std::string& job, WorkerNeed need) {
  // A job has one need. Jobs that ask for the same worker slots stand in one line, so that a queue
  // of a thousand equal jobs costs as much as one.
  Erase(job);
  projects_[ProjectId(job)][{need.active, need.missing, need.needs}].emplace(-need.priority,
                                                                             need.order, job);
  needs_[job] = std::move(need);
}

void NeedQueue::Erase(const std::string& job) {
  const auto it = needs_.find(job);
  if (it == needs_.end()) return;
  const WorkerNeed& need = it->second;
  const auto project = projects_.find(ProjectId(job));
  const auto line = project->second.find({need.active, need.missing, need.needs});
  line->second.erase({-need.priority, need.order, job});
  if (line->second.empty()) project->second.erase(line);
  if (project->second.empty()) projects_.erase(project);
  needs_.erase(it);
}

const WorkerNeed* NeedQueue::Find(const std::string& job) const {
  const auto it = needs_.find(job);
  return it == needs_.end() ? nullptr : &it->second;
}

}  // namespace baton::controller
