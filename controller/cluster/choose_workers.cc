#include "controller/cluster/choose_workers.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace baton::controller {

std::optional<ChosenWorkers> ChooseWorkers(const ClusterWorkers& workers,
                                           const std::vector<std::string>& ids,
                                           const std::string& project, const WorkerNeed& need,
                                           size_t room, int64_t* examined) {
  ChosenWorkers chosen;
  std::set<std::string> taken;
  // Worker slots of many roles first: a worker that plays one role alone cannot take them.
  std::vector<std::pair<std::string, int>> worker_slots(need.missing.begin(), need.missing.end());
  std::stable_sort(worker_slots.begin(), worker_slots.end(), [](const auto& a, const auto& b) {
    return RolesOfWorkerSlot(a.first).size() > RolesOfWorkerSlot(b.first).size();
  });
  for (const auto& [roles, count] : worker_slots) {
    int found = 0;
    const std::vector<std::string> all = RolesOfWorkerSlot(roles);
    // A worker that let a deadline pass comes last. Among the others, the worker that plays the
    // fewest other roles is taken first, so that versatile workers stay free.
    std::vector<std::tuple<int, int, std::string>> candidates;
    *examined += static_cast<int64_t>(ids.size());
    for (const std::string& id : ids) {
      const ClusterWorker& worker = workers.all().at(id);
      if (taken.count(id) > 0 || !Fits(worker, project, all, need.needs)) continue;
      candidates.emplace_back(worker.silences, worker.hello.methods_size(), id);
    }
    std::sort(candidates.begin(), candidates.end());
    for (const auto& [silences, methods, id] : candidates) {
      if (found == count || chosen.size() == room) break;
      chosen.emplace_back(id, roles);
      taken.insert(id);
      ++found;
    }
    if (found < count && !need.active) return std::nullopt;
  }
  return chosen;
}

}  // namespace baton::controller
