#include "controller/cluster/stuck_jobs.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace baton::controller {
namespace {

void Move(ClusterWorkers& workers, const std::string& job, const WorkerNeed& need,
          const std::string& worker_slot, const std::vector<PlacedWorker>& chain,
          ClusterEffects& effects) {
  for (const PlacedWorker& worker : chain) {  // all worker slots are free before one is taken
    if (worker.roles.empty()) continue;
    effects.push_back(
        ClusterLost{job, worker.id,
                    absl::StrCat("it moves to another seat: without ", worker_slot,
                                 " the job cannot go on, and no free worker plays that"),
                    /*moves=*/true});
  }
  std::string roles = worker_slot;
  for (const PlacedWorker& moving : chain) {
    workers.Grant(moving.id, job, roles, need.needs, effects);
    roles = moving.roles;
  }
}

// True if `workers` could take all worker slots without which the job cannot go on.
bool CouldFill(const ClusterParts& cluster, const std::string& job, const WorkerNeed& need,
               const std::vector<std::string>& workers) {
  std::vector<PlacedWorker> placed;  // a worker slot after the other, moving those that sit already
  for (const std::string& id : workers) placed.push_back({id, ""});
  const auto plays = [&](const std::string& id, const std::string& roles) {
    return Fits(cluster.workers.all().at(id), ProjectId(job), RolesOfWorkerSlot(roles), need.needs);
  };
  for (const std::string& roles : need.hints.blocking) {
    const auto missing = need.missing.find(roles);
    const int count = missing == need.missing.end() ? 0 : missing->second;
    for (int i = 0; i < count; ++i) {
      const std::vector<PlacedWorker> chain = FindChain(roles, placed, {}, plays);
      if (chain.empty()) return false;
      std::string worker_slot = roles;
      for (const PlacedWorker& moving : chain) {
        const auto at = std::find_if(placed.begin(), placed.end(),
                                     [&](const PlacedWorker& w) { return w.id == moving.id; });
        at->roles = std::exchange(worker_slot, moving.roles);
      }
    }
  }
  return true;
}

}  // namespace

std::vector<PlacedWorker> ChainFor(const ClusterParts& cluster, const std::string& job,
                                   const WorkerNeed& need, std::string* worker_slot) {
  if (!need.active || need.hints.blocking.empty()) return {};
  if (!cluster.HasRoom(ProjectId(job))) return {};
  std::vector<PlacedWorker> workers;
  for (const auto& [id, worker] : cluster.workers.all()) {
    const bool here = worker.job.empty() || worker.job == job;
    if (worker.session == 0 || worker.draining || !here) continue;
    workers.push_back({id, worker.roles});
  }
  const auto plays = [&](const std::string& id, const std::string& roles) {
    return Fits(cluster.workers.all().at(id), ProjectId(job), RolesOfWorkerSlot(roles), need.needs);
  };
  for (const std::string& roles : need.hints.blocking) {
    const auto missing = need.missing.find(roles);
    if (missing == need.missing.end() || missing->second == 0) continue;
    auto chain = FindChain(roles, workers, need.hints.anchored, plays);
    if (chain.empty()) continue;
    *worker_slot = roles;
    return chain;
  }
  return {};
}

// Free workers that fit were granted before this, so each chain moves at least one worker.
void Rearrange(ClusterParts& cluster, absl::Time now, ClusterEffects& effects) {
  std::vector<std::string> blocked;
  for (const auto& [job, need] : cluster.needs.needs()) {
    if (need.active && !need.hints.blocking.empty() &&
        now - need.since >= cluster.options.rearrange_after) {
      blocked.push_back(job);
    }
  }
  for (const std::string& job : blocked) {
    WorkerNeed need = *cluster.needs.Find(job);
    std::string worker_slot;
    const std::vector<PlacedWorker> chain = ChainFor(cluster, job, need, &worker_slot);
    if (chain.empty()) continue;
    Move(cluster.workers, job, need, worker_slot, chain, effects);
    need.since = now;
    --need.missing[worker_slot];
    const bool complete = std::all_of(need.missing.begin(), need.missing.end(),
                                      [](const auto& roles) { return roles.second == 0; });
    if (complete) {
      cluster.needs.Erase(job);
    } else {
      cluster.needs.Put(job, std::move(need));
    }
  }
}

std::vector<std::string> JobsYieldingTo(const ClusterParts& cluster, const std::string& job) {
  const auto place = [](const std::string& id, const WorkerNeed& need) {
    return std::make_tuple(-need.priority, need.order, id);
  };
  const auto stuck = [&](const std::string& id) {
    const WorkerNeed* need = cluster.needs.Find(id);
    return need != nullptr && need->active && !need->hints.blocking.empty() ? need : nullptr;
  };
  const WorkerNeed* need = stuck(job);
  if (need == nullptr) return {};
  const bool room = cluster.HasRoom(ProjectId(job));
  std::vector<std::string> could;  // workers
  std::map<std::tuple<int, int64_t, std::string>, std::vector<std::string>> held;
  for (const auto& [id, worker] : cluster.workers.all()) {
    if (worker.session == 0 || worker.draining || worker.job == job) continue;
    if (worker.job.empty()) could.push_back(id);
    const WorkerNeed* other = stuck(worker.job);
    if (other == nullptr || (!room && ProjectId(worker.job) != ProjectId(job))) continue;
    const auto its = place(worker.job, *other);
    if (place(job, *need) < its) held[its].push_back(id);
  }
  const auto with_those_of = [&](const std::vector<std::string>& jobs) {
    std::vector<std::string> workers = could;
    for (const auto& [its, ids] : held) {
      if (std::count(jobs.begin(), jobs.end(), std::get<std::string>(its)) == 0) continue;
      workers.insert(workers.end(), ids.begin(), ids.end());
    }
    return CouldFill(cluster, job, *need, workers);
  };
  std::vector<std::string> yields;
  for (auto last = held.rbegin(); last != held.rend() && !with_those_of(yields); ++last) {
    yields.push_back(std::get<std::string>(last->first));
  }
  if (!with_those_of(yields)) return {};
  for (size_t i = 0; i < yields.size();) {  // some may have nothing that it lacks
    std::vector<std::string> others = yields;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    if (with_those_of(others)) {
      yields = std::move(others);
    } else {
      ++i;
    }
  }
  return yields;
}

void Yield(ClusterParts& cluster, absl::Time now, ClusterEffects& effects) {
  std::vector<std::string> stuck;
  for (const auto& [job, need] : cluster.needs.needs()) {
    if (now - need.since >= cluster.options.yield_after) stuck.push_back(job);
  }
  for (const std::string& job : stuck) {
    const std::vector<std::string> yields = JobsYieldingTo(cluster, job);
    const bool long_enough = std::all_of(yields.begin(), yields.end(), [&](const std::string& id) {
      return now - cluster.needs.Find(id)->since >= cluster.options.yield_after;
    });
    if (yields.empty() || !long_enough) continue;
    for (const std::string& id : yields) {
      effects.push_back(ClusterYield{
          id, absl::StrCat("it lacks workers, and so does ", NameForThoseOf(ProjectId(id), job),
                           ", which comes before it and could go on with those that it holds")});
    }
    std::vector<std::string> changed = yields;  // all wait anew for what comes of it
    changed.push_back(job);
    for (const std::string& id : changed) {
      WorkerNeed need = *cluster.needs.Find(id);
      need.since = now;
      cluster.needs.Put(id, std::move(need));
    }
  }
}

}  // namespace baton::controller
