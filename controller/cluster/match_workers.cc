#include "controller/cluster/match_workers.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "controller/cluster/need_queue.h"

namespace baton::controller {
namespace {

// What is there to be given, during one matching: it only becomes less.
struct Supply {
  std::vector<std::string> free;    // workers
  bool bound = false;               // one of them works for one project alone
  std::map<std::string, int> held;  // workers, by project
  /// Of `free`, by project (where it makes a difference), needs and roles of a worker slot; filled
  /// when asked.
  std::map<std::tuple<std::string, RoleNeeds, std::string>, int> free_with;
};

// Where the first job of a line stands among the first ones of all lines.
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
  /// Both must outlive it.
  Matching(ClusterParts* cluster, ClusterEffects* effects)
      : cluster_(*cluster), effects_(*effects), supply_(CountSupply(cluster->workers)) {}

  void Run();
  int64_t examined() const { return examined_; }

 private:
  int HeldBy(const std::string& project) const;
  int FreeWith(const std::string& project, const NeedQueue::Line& line, const std::string& roles);
  bool MayServe(const std::string& project, const NeedQueue::Line& line, int room);
  std::vector<Place> Places();
  bool Serve(const std::string& job);

  ClusterParts& cluster_;
  ClusterEffects& effects_;
  Supply supply_;
  int64_t examined_ = 0;
};

int Matching::HeldBy(const std::string& project) const {
  const auto held = supply_.held.find(project);
  return held == supply_.held.end() ? 0 : held->second;
}

int Matching::FreeWith(const std::string& project, const NeedQueue::Line& line,
                       const std::string& roles) {
  const auto [there, unknown] =
      supply_.free_with.try_emplace({supply_.bound ? project : "", line.needs, roles}, 0);
  if (!unknown) return there->second;
  examined_ += static_cast<int64_t>(supply_.free.size());
  const std::vector<std::string> all = RolesOfWorkerSlot(roles);
  there->second = static_cast<int>(
      std::count_if(supply_.free.begin(), supply_.free.end(), [&](const std::string& id) {
        return Fits(cluster_.workers.all().at(id), project, all, line.needs);
      }));
  return there->second;
}

// False: Serve would change nothing for a job of this line.
bool Matching::MayServe(const std::string& project, const NeedQueue::Line& line, int room) {
  ++examined_;
  if (!line.active && line.worker_slots() > std::min(room, static_cast<int>(supply_.free.size()))) {
    return false;
  }
  bool all = true, any = false;
  for (const auto& [roles, count] : line.missing) {
    const int free = FreeWith(project, line, roles);
    all = all && free >= count;
    any = any || (count > 0 && free > 0);
  }
  return line.active ? any : all;
}

// The lines that may be served, by their first jobs, in order. Room is tested first: a project that
// holds all it may costs nothing, however many of its jobs wait.
std::vector<Place> Matching::Places() {
  std::vector<Place> places;
  for (const auto& [project, lines] : cluster_.needs.projects()) {
    const int held = HeldBy(project);
    const int room = cluster_.quotas.RoomOf(project, held);
    if (room == 0) continue;
    const double share = cluster_.quotas.ShareOf(project, held);
    for (const auto& [line, jobs] : lines) {
      if (!MayServe(project, line, room)) continue;
      const auto& [priority, order, job] = *jobs.begin();
      places.push_back({{!line.active, priority, share, order, job}});
    }
  }
  std::sort(places.begin(), places.end());
  return places;
}

// Gives a job all that it lacks, or, once it has started, what there is. False: nothing was given.
bool Matching::Serve(const std::string& job) {
  WorkerNeed need = *cluster_.needs.Find(job);
  std::vector<std::pair<std::string, std::string>> chosen;  // worker, roles
  std::set<std::string> taken;
  const auto room =
      static_cast<size_t>(cluster_.quotas.RoomOf(ProjectId(job), HeldBy(ProjectId(job))));
  // Worker slots of many roles first: what plays one role alone would not do for them.
  std::vector<std::pair<std::string, int>> worker_slots(need.missing.begin(), need.missing.end());
  std::stable_sort(worker_slots.begin(), worker_slots.end(), [](const auto& a, const auto& b) {
    return RolesOfWorkerSlot(a.first).size() > RolesOfWorkerSlot(b.first).size();
  });
  for (const auto& [roles, count] : worker_slots) {
    int found = 0;
    const std::vector<std::string> all = RolesOfWorkerSlot(roles);
    // A worker that let a deadline pass comes last. Among the others the one that plays the fewest
    // other roles is taken first, so that versatile workers stay free.
    std::vector<std::tuple<int, int, std::string>> candidates;
    examined_ += static_cast<int64_t>(supply_.free.size());
    for (const std::string& id : supply_.free) {
      const ClusterWorker& worker = cluster_.workers.all().at(id);
      if (taken.count(id) > 0 || !Fits(worker, ProjectId(job), all, need.needs)) continue;
      candidates.emplace_back(worker.silences, worker.hello.methods_size(), id);
    }
    std::sort(candidates.begin(), candidates.end());
    for (const auto& [silences, methods, id] : candidates) {
      if (found == count || chosen.size() == room) break;
      chosen.emplace_back(id, roles);
      taken.insert(id);
      ++found;
    }
    if (found < count && !need.active) return false;
  }
  for (const auto& [id, roles] : chosen) {
    cluster_.workers.Grant(id, job, roles, need.needs, effects_);
    --need.missing[roles];
  }
  supply_.held[ProjectId(job)] += static_cast<int>(chosen.size());
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
  return !chosen.empty();
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
