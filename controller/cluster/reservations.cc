#include "controller/cluster/reservations.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "controller/cluster/choose_workers.h"

namespace baton::controller {
namespace {

// -priority, waiting since, order, name: the first one reserves first.
using Holder = std::tuple<int, absl::Time, int64_t, std::string>;

// Jobs of one line lack the same, so the first one stands for the whole line.
std::set<Holder> HoldersOf(const NeedQueue& needs) {
  std::set<Holder> holders;
  for (const auto& [project, lines] : needs.projects()) {
    for (const auto& [line, jobs] : lines) {
      const auto& [priority, order, job] = *jobs.begin();
      const WorkerNeed& need = *needs.Find(job);
      if (!line.active && need.reserves) holders.emplace(priority, need.queued, order, job);
    }
  }
  return holders;
}

// True if the job would start once all other projects held no worker. The limit of its own project
// still counts.
bool CouldStart(const ClusterParts& cluster, const std::string& job, const WorkerNeed& need,
                int64_t* examined) {
  std::vector<std::string> usable;
  for (const auto& [id, worker] : cluster.workers.all()) {
    if (worker.session != 0 && !worker.draining) usable.push_back(id);
  }
  const std::string project = ProjectId(job);
  const int room = cluster.quotas.RoomOf(project, cluster.workers.HeldBy(project));
  return ChooseWorkers(cluster.workers, usable, project, need, static_cast<size_t>(room), examined)
      .has_value();
}

}  // namespace

Reservations ReserveWorkers(const ClusterParts& cluster, int64_t* examined) {
  Reservations out;
  for (const auto& [priority, queued, order, job] : HoldersOf(cluster.needs)) {
    WorkerNeed need = *cluster.needs.Find(job);
    if (!CouldStart(cluster, job, need, examined)) continue;
    std::vector<std::string> free;
    for (const auto& [id, worker] : cluster.workers.all()) {
      if (worker.free() && out.count(id) == 0) free.push_back(id);
    }
    need.active = true;  // what there is now, not all or nothing
    const auto chosen = ChooseWorkers(cluster.workers, free, ProjectId(job), need,
                                      std::numeric_limits<size_t>::max(), examined);
    for (const auto& [id, roles] : *chosen) out.emplace(id, Reservation{job, need.priority});
  }
  return out;
}

void MarkReserving(ClusterParts& cluster, absl::Time now) {
  std::vector<std::string> late;
  for (const auto& [job, need] : cluster.needs.needs()) {
    const bool waits = !need.active && !need.reserves;
    if (waits && now - need.queued >= cluster.options.reserve_after) late.push_back(job);
  }
  for (const std::string& job : late) {
    WorkerNeed need = *cluster.needs.Find(job);
    need.reserves = true;
    cluster.needs.Put(job, std::move(need));
  }
}

}  // namespace baton::controller
