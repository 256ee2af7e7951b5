// ClusterCore: which waiting job gets which free worker.
#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "controller/core/cluster_core.h"

namespace baton::controller {
namespace {

std::vector<std::string> RolesOfSeat(const std::string& roles) {
  return absl::StrSplit(roles, '+');
}

}  // namespace

// What is there to be given, during one matching: it only becomes less.
struct ClusterCore::Supply {
  std::vector<std::string> free;    // workers
  bool bound = false;               // one of them works for one project alone
  std::map<std::string, int> held;  // workers, by project
  /// Of `free`, by project (where it makes a difference), needs and roles of a seat; filled when
  /// asked.
  std::map<std::tuple<std::string, RoleNeeds, std::string>, int> free_with;
};

// Where the first job of a line stands among the first ones of all lines.
struct ClusterCore::Place {
  std::tuple<bool, int, double, int64_t, std::string> order;  // started, priority, share, …, job
  bool operator<(const Place& other) const { return order < other.order; }
  const std::string& job() const { return std::get<std::string>(order); }
};

ClusterCore::Supply ClusterCore::CountSupply() const {
  Supply supply;
  for (const auto& [id, worker] : workers_) {
    if (!worker.job.empty()) {
      ++supply.held[ProjectId(worker.job)];
    } else if (worker.session != 0 && !worker.draining) {
      supply.free.push_back(id);
      supply.bound = supply.bound || worker.project != "*";
    }
  }
  return supply;
}

// How many workers more the project may hold.
int ClusterCore::RoomOf(const std::string& project, const Supply& supply) const {
  const auto it = projects_.find(project);
  if (it == projects_.end() || it->second.max_workers() == 0) {
    return std::numeric_limits<int>::max();
  }
  const auto held = supply.held.find(project);
  return std::max(0, it->second.max_workers() - (held == supply.held.end() ? 0 : held->second));
}

bool ClusterCore::HasRoom(const std::string& project) const {
  return RoomOf(project, CountSupply()) > 0;
}

// Workers that the project holds, for its weight.
double ClusterCore::ShareOf(const std::string& project, const Supply& supply) const {
  const auto it = projects_.find(project);
  const int weight = it == projects_.end() ? 1 : std::max(1, it->second.weight());
  const auto held = supply.held.find(project);
  return static_cast<double>(held == supply.held.end() ? 0 : held->second) / weight;
}

int ClusterCore::FreeWith(const std::string& project, const NeedQueue::Line& line,
                          const std::string& roles, Supply& supply) {
  const auto [there, unknown] =
      supply.free_with.try_emplace({supply.bound ? project : "", line.needs, roles}, 0);
  if (!unknown) return there->second;
  examined_ += static_cast<int64_t>(supply.free.size());
  const std::vector<std::string> all = RolesOfSeat(roles);
  there->second = static_cast<int>(std::count_if(
      supply.free.begin(), supply.free.end(),
      [&](const std::string& id) { return Fits(workers_.at(id), project, all, line.needs); }));
  return there->second;
}

// False: Serve would change nothing for a job of this line.
bool ClusterCore::MayServe(const std::string& project, const NeedQueue::Line& line, int room,
                           Supply& supply) {
  ++examined_;
  if (!line.active && line.seats() > std::min(room, static_cast<int>(supply.free.size()))) {
    return false;
  }
  bool all = true, any = false;
  for (const auto& [roles, count] : line.missing) {
    const int free = FreeWith(project, line, roles, supply);
    all = all && free >= count;
    any = any || (count > 0 && free > 0);
  }
  return line.active ? any : all;
}

// The lines that may be served, by their first jobs, in order. Room is tested first: a project that
// holds all it may costs nothing, however many of its jobs wait.
std::vector<ClusterCore::Place> ClusterCore::Places(Supply& supply) {
  std::vector<Place> places;
  for (const auto& [project, lines] : needs_.projects()) {
    const int room = RoomOf(project, supply);
    if (room == 0) continue;
    const double share = ShareOf(project, supply);
    for (const auto& [line, jobs] : lines) {
      if (!MayServe(project, line, room, supply)) continue;
      const auto& [priority, order, job] = *jobs.begin();
      places.push_back({{!line.active, priority, share, order, job}});
    }
  }
  std::sort(places.begin(), places.end());
  return places;
}

// Gives a job all that it lacks, or, once it has started, what there is. False: nothing was given.
bool ClusterCore::Serve(const std::string& job, Supply& supply, ClusterEffects& effects) {
  WorkerNeed need = *needs_.Find(job);
  std::vector<std::pair<std::string, std::string>> chosen;  // worker, roles
  std::set<std::string> taken;
  const auto room = static_cast<size_t>(RoomOf(ProjectId(job), supply));
  // Seats of many roles first: what plays one role alone would not do for them.
  std::vector<std::pair<std::string, int>> seats(need.missing.begin(), need.missing.end());
  std::stable_sort(seats.begin(), seats.end(), [](const auto& a, const auto& b) {
    return RolesOfSeat(a.first).size() > RolesOfSeat(b.first).size();
  });
  for (const auto& [roles, count] : seats) {
    int found = 0;
    const std::vector<std::string> all = RolesOfSeat(roles);
    // A worker that let a deadline pass comes last. Among the others the one that plays the fewest
    // other roles is taken first, so that versatile workers stay free.
    std::vector<std::tuple<int, int, std::string>> candidates;
    examined_ += static_cast<int64_t>(supply.free.size());
    for (const std::string& id : supply.free) {
      const Worker& worker = workers_.at(id);
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
    Worker& worker = workers_.at(id);
    worker.job = job;
    worker.roles = roles;
    --need.missing[roles];
    effects.push_back(GrantOf(job, id, worker, need.needs));
  }
  supply.held[ProjectId(job)] += static_cast<int>(chosen.size());
  supply.free.erase(std::remove_if(supply.free.begin(), supply.free.end(),
                                   [&](const std::string& id) { return taken.count(id) > 0; }),
                    supply.free.end());
  supply.free_with.clear();
  need.active = true;
  const bool complete = std::all_of(need.missing.begin(), need.missing.end(),
                                    [](const auto& m) { return m.second == 0; });
  if (complete) {
    needs_.Erase(job);
  } else {
    needs_.Put(job, std::move(need));
  }
  return !chosen.empty();
}

// Serving a job changes the shares of the projects, so the next job is chosen anew each time. A
// need that fails with these free workers fails with fewer of them, too.
void ClusterCore::Match(ClusterEffects& effects) {
  if (in_turn_) {
    changed_ = true;
    return;
  }
  if (needs_.empty()) return;
  Supply supply = CountSupply();
  for (bool served = true; served && !supply.free.empty();) {
    const std::vector<Place> places = Places(supply);
    served = std::any_of(places.begin(), places.end(),
                         [&](const Place& place) { return Serve(place.job(), supply, effects); });
  }
}

ClusterEffects ClusterCore::EndTurn() {
  ClusterEffects effects;
  in_turn_ = false;
  if (std::exchange(changed_, false)) Match(effects);
  return effects;
}

}  // namespace baton::controller
