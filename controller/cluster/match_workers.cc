#include "controller/cluster/match_workers.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "controller/cluster/choose_workers.h"
#include "controller/cluster/need_queue.h"
#include "controller/cluster/reservations.h"

namespace baton::controller {
namespace {

// The free workers during one matching; they only become fewer.
struct Supply {
  std::vector<std::string> free;    // workers
  bool bound = false;               // one of them works for one project alone
  std::map<std::string, int> held;  // workers, by project
  /// Number of `free` workers by project (where it makes a difference), needs and roles of a worker
  /// slot; filled when asked.
  std::map<std::tuple<std::string, RoleNeeds, std::string>, int> free_with;
};

// The place of a line's first job among the first jobs of all lines.
struct Place {
  std::tuple<bool, int, double, int64_t, std::string> order;  // started, priority, share, …, job
  bool operator<(const Place& other) const { return order < other.order; }
  const std::string& job() const { return std::get<std::string>(order); }
};

Supply CountSupply(const ClusterWorkers& workers) {
  Supply supply;
  for (const auto& [id, worker] : workers.all()) {
    if (!worker.job.empty()) {
      ++supply.held[ProjectId(worker.job)];
    } else if (worker.free()) {
      supply.free.push_back(id);
      supply.bound = supply.bound || worker.project != "*";
    }
  }
  return supply;
}

class Matching {
 public:
  /// Both arguments must outlive this object.
  Matching(ClusterParts* cluster, ClusterEffects* effects)
      : cluster_(*cluster),
        effects_(*effects),
        supply_(CountSupply(cluster->workers)),
        reserved_(ReserveWorkers(*cluster, &examined_)) {}

  void Run();
  int64_t examined() const { return examined_; }

 private:
  int HeldBy(const std::string& project) const;
  std::vector<std::string> FreeFor(const std::string& job) const;
  int FreeWith(const std::string& job, const NeedQueue::Line& line, const std::string& roles);
  bool MayServe(const std::string& job, const NeedQueue::Line& line, int room);
  std::vector<Place> Places();
  bool Serve(const std::string& job);

  ClusterParts& cluster_;
  ClusterEffects& effects_;
  int64_t examined_ = 0;
  Supply supply_;
  Reservations reserved_;  // of `supply_`
};

int Matching::HeldBy(const std::string& project) const {
  const auto held = supply_.held.find(project);
  return held == supply_.held.end() ? 0 : held->second;
}

// The free workers that are not kept for others.
std::vector<std::string> Matching::FreeFor(const std::string& job) const {
  const WorkerNeed& need = *cluster_.needs.Find(job);
  if (reserved_.empty() || need.active) return supply_.free;
  std::vector<std::string> out;
  for (const std::string& id : supply_.free) {
    const auto reserved = reserved_.find(id);
    if (reserved == reserved_.end() || reserved->second.Admits(job, need)) out.push_back(id);
  }
  return out;
}

int Matching::FreeWith(const std::string& job, const NeedQueue::Line& line,
                       const std::string& roles) {
  const std::string project = ProjectId(job);
  const auto count = [&](const std::vector<std::string>& free) {
    examined_ += static_cast<int64_t>(free.size());
    const std::vector<std::string> all = RolesOfWorkerSlot(roles);
    return static_cast<int>(std::count_if(free.begin(), free.end(), [&](const std::string& id) {
      return Fits(cluster_.workers.all().at(id), project, all, line.needs);
    }));
  };
  if (!reserved_.empty()) return count(FreeFor(job));
  const auto [there, unknown] =
      supply_.free_with.try_emplace({supply_.bound ? project : "", line.needs, roles}, 0);
  if (unknown) there->second = count(supply_.free);
  return there->second;
}

// False: Serve would change nothing for a job of this line, whose first one is `job`.
bool Matching::MayServe(const std::string& job, const NeedQueue::Line& line, int room) {
  ++examined_;
  if (!line.active && line.worker_slots() > std::min(room, static_cast<int>(supply_.free.size()))) {
    return false;
  }
  bool all = true, any = false;
  for (const auto& [roles, count] : line.missing) {
    const int free = FreeWith(job, line, roles);
    all = all && free >= count;
    any = any || (count > 0 && free > 0);
  }
  return line.active ? any : all;
}

// The lines that may be served, by their first jobs, in order. Room is tested first: a project at
// its limit costs nothing, however many of its jobs wait.
std::vector<Place> Matching::Places() {
  std::vector<Place> places;
  for (const auto& [project, lines] : cluster_.needs.projects()) {
    const int held = HeldBy(project);
    const int room = cluster_.quotas.RoomOf(project, held);
    if (room == 0) continue;
    const double share = cluster_.quotas.ShareOf(project, held);
    for (const auto& [line, jobs] : lines) {
      const auto& [priority, order, job] = *jobs.begin();
      if (!MayServe(job, line, room)) continue;
      places.push_back({{!line.active, priority, share, order, job}});
    }
  }
  std::sort(places.begin(), places.end());
  return places;
}

// Gives a job all that it lacks, or, once it has started, what there is. False: nothing was given.
bool Matching::Serve(const std::string& job) {
  WorkerNeed need = *cluster_.needs.Find(job);
  const auto room =
      static_cast<size_t>(cluster_.quotas.RoomOf(ProjectId(job), HeldBy(ProjectId(job))));
  const auto chosen =
      ChooseWorkers(cluster_.workers, FreeFor(job), ProjectId(job), need, room, &examined_);
  if (!chosen.has_value()) return false;
  std::set<std::string> taken;
  for (const auto& [id, roles] : *chosen) {
    taken.insert(id);
    cluster_.workers.Grant(id, job, roles, need.needs, effects_);
    --need.missing[roles];
  }
  supply_.held[ProjectId(job)] += static_cast<int>(chosen->size());
  supply_.free.erase(std::remove_if(supply_.free.begin(), supply_.free.end(),
                                    [&](const std::string& id) { return taken.count(id) > 0; }),
                     supply_.free.end());
  supply_.free_with.clear();
  need.active = true;
  const bool complete = std::all_of(need.missing.begin(), need.missing.end(),
                                    [](const auto& m) { return m.second == 0; });
  if (complete) {
    cluster_.needs.Erase(job);
  } else {
    cluster_.needs.Put(job, std::move(need));
  }
  if (!reserved_.empty()) reserved_ = ReserveWorkers(cluster_, &examined_);
  return !chosen->empty();
}

// Serving a job changes the shares of the projects, so the next job is chosen anew each time. A
// need that fails with these free workers fails with fewer of them, too.
void Matching::Run() {
  for (bool served = true; served && !supply_.free.empty();) {
    const std::vector<Place> places = Places();
    served = std::any_of(places.begin(), places.end(),
                         [&](const Place& place) { return Serve(place.job()); });
  }
}

}  // namespace

int64_t MatchWorkers(ClusterParts& cluster, ClusterEffects& effects) {
  if (cluster.needs.empty()) return 0;
  Matching matching(&cluster, &effects);
  matching.Run();
  return matching.examined();
}

}  // namespace baton::controller
