// ClusterCore: workers of a job change their seats, or go to a job that comes before it.
#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "controller/core/cluster_core.h"

namespace baton::controller {

std::vector<SeatedWorker> ClusterCore::ChainFor(const std::string& job, const WorkerNeed& need,
                                                std::string* seat) const {
  if (!need.active || need.hints.blocking.empty()) return {};
  if (!HasRoom(ProjectId(job))) return {};
  std::vector<SeatedWorker> workers;
  for (const auto& [id, worker] : workers_) {
    const bool here = worker.job.empty() || worker.job == job;
    if (worker.session == 0 || worker.draining || !here) continue;
    workers.push_back({id, worker.roles});
  }
  const auto plays = [&](const std::string& id, const std::string& roles) {
    return Fits(workers_.at(id), ProjectId(job), absl::StrSplit(roles, '+'), need.features);
  };
  for (const std::string& roles : need.hints.blocking) {
    const auto missing = need.missing.find(roles);
    if (missing == need.missing.end() || missing->second == 0) continue;
    auto chain = FindChain(roles, workers, need.hints.anchored, plays);
    if (chain.empty()) continue;
    *seat = roles;
    return chain;
  }
  return {};
}

// Free workers that fit were granted before this, so each chain moves at least one worker.
void ClusterCore::Reseat(absl::Time now, ClusterEffects& effects) {
  std::vector<std::string> blocked;
  for (const auto& [job, need] : needs_.needs()) {
    if (need.active && !need.hints.blocking.empty() && now - need.since >= options_.reseat_after) {
      blocked.push_back(job);
    }
  }
  for (const std::string& job : blocked) {
    WorkerNeed need = *needs_.Find(job);
    std::string seat;
    const std::vector<SeatedWorker> chain = ChainFor(job, need, &seat);
    if (chain.empty()) continue;
    Move(job, seat, chain, effects);
    need.since = now;
    --need.missing[seat];
    const bool complete = std::all_of(need.missing.begin(), need.missing.end(),
                                      [](const auto& roles) { return roles.second == 0; });
    if (complete) {
      needs_.Erase(job);
    } else {
      needs_.Put(job, std::move(need));
    }
  }
}

void ClusterCore::Move(const std::string& job, const std::string& seat,
                       const std::vector<SeatedWorker>& chain, ClusterEffects& effects) {
  for (const SeatedWorker& worker : chain) {  // all seats are free before one is taken
    if (worker.roles.empty()) continue;
    effects.push_back(
        ClusterLost{job, worker.id,
                    absl::StrCat("it moves to another seat: without ", seat,
                                 " the job cannot go on, and no free worker plays that"),
                    /*moves=*/true});
  }
  std::string roles = seat;
  for (const SeatedWorker& moving : chain) {
    Worker& worker = workers_.at(moving.id);
    worker.job = job;
    worker.roles = roles;
    effects.push_back(GrantOf(job, moving.id, worker));
    roles = moving.roles;
  }
}

std::string ClusterCore::WhoYieldsTo(const std::string& job) const {
  const auto stuck = [](const WorkerNeed& need) {
    return need.active && !need.hints.blocking.empty();
  };
  const auto place = [](const std::string& id, const WorkerNeed& need) {
    return std::make_tuple(-need.priority, need.order, id);
  };
  const WorkerNeed* need = needs_.Find(job);
  if (need == nullptr || !stuck(*need)) return "";
  const bool room = HasRoom(ProjectId(job));
  const auto wants = [&](const Worker& worker) {
    return std::any_of(
        need->hints.blocking.begin(), need->hints.blocking.end(), [&](const std::string& roles) {
          const auto missing = need->missing.find(roles);
          return missing != need->missing.end() && missing->second > 0 &&
                 Fits(worker, ProjectId(job), absl::StrSplit(roles, '+'), need->features);
        });
  };
  auto last = place(job, *need);
  for (const auto& [id, worker] : workers_) {
    const WorkerNeed* other = worker.job == job ? nullptr : needs_.Find(worker.job);
    if (other == nullptr || !stuck(*other) || worker.session == 0 || worker.draining) continue;
    if (!room && ProjectId(worker.job) != ProjectId(job)) continue;
    const auto its = place(worker.job, *other);
    if (last < its && wants(worker)) last = its;
  }
  return std::get<std::string>(last) == job ? "" : std::get<std::string>(last);
}

void ClusterCore::Yield(absl::Time now, ClusterEffects& effects) {
  std::vector<std::string> stuck;
  for (const auto& [job, need] : needs_.needs()) {
    if (now - need.since >= options_.yield_after) stuck.push_back(job);
  }
  for (const std::string& job : stuck) {
    const std::string yields = WhoYieldsTo(job);
    if (yields.empty() || now - needs_.Find(yields)->since < options_.yield_after) continue;
    effects.push_back(ClusterYield{
        yields,
        absl::StrCat("it lacks workers, and so does ", NameForThoseOf(ProjectId(yields), job),
                     ", which comes before it and could go on with those that it holds")});
    for (const std::string& changed : {job, yields}) {  // both wait anew for what comes of it
      WorkerNeed need = *needs_.Find(changed);
      need.since = now;
      needs_.Put(changed, std::move(need));
    }
  }
}

}  // namespace baton::controller
