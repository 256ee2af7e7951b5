// ClusterCore: workers of a job change their seats, or go to a job that comes before it.
#include <algorithm>
#include <cstddef>
#include <map>
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
    return Fits(workers_.at(id), ProjectId(job), absl::StrSplit(roles, '+'), need.needs);
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
    Move(job, need, seat, chain, effects);
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

void ClusterCore::Move(const std::string& job, const WorkerNeed& need, const std::string& seat,
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
    effects.push_back(GrantOf(job, moving.id, worker, need.needs));
    roles = moving.roles;
  }
}

bool ClusterCore::CouldFill(const std::string& job, const WorkerNeed& need,
                            const std::vector<std::string>& workers) const {
  std::vector<SeatedWorker> seated;  // a seat after the other, moving those that sit already
  for (const std::string& id : workers) seated.push_back({id, ""});
  const auto plays = [&](const std::string& id, const std::string& roles) {
    return Fits(workers_.at(id), ProjectId(job), absl::StrSplit(roles, '+'), need.needs);
  };
  for (const std::string& roles : need.hints.blocking) {
    const auto missing = need.missing.find(roles);
    const int count = missing == need.missing.end() ? 0 : missing->second;
    for (int i = 0; i < count; ++i) {
      const std::vector<SeatedWorker> chain = FindChain(roles, seated, {}, plays);
      if (chain.empty()) return false;
      std::string seat = roles;
      for (const SeatedWorker& moving : chain) {
        const auto at = std::find_if(seated.begin(), seated.end(),
                                     [&](const SeatedWorker& w) { return w.id == moving.id; });
        at->roles = std::exchange(seat, moving.roles);
      }
    }
  }
  return true;
}

std::vector<std::string> ClusterCore::WhoYieldsTo(const std::string& job) const {
  const auto place = [](const std::string& id, const WorkerNeed& need) {
    return std::make_tuple(-need.priority, need.order, id);
  };
  const auto stuck = [&](const std::string& id) {
    const WorkerNeed* need = needs_.Find(id);
    return need != nullptr && need->active && !need->hints.blocking.empty() ? need : nullptr;
  };
  const WorkerNeed* need = stuck(job);
  if (need == nullptr) return {};
  const bool room = HasRoom(ProjectId(job));
  std::vector<std::string> could;  // workers
  std::map<std::tuple<int, int64_t, std::string>, std::vector<std::string>> held;
  for (const auto& [id, worker] : workers_) {
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
    return CouldFill(job, *need, workers);
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

void ClusterCore::Yield(absl::Time now, ClusterEffects& effects) {
  std::vector<std::string> stuck;
  for (const auto& [job, need] : needs_.needs()) {
    if (now - need.since >= options_.yield_after) stuck.push_back(job);
  }
  for (const std::string& job : stuck) {
    const std::vector<std::string> yields = WhoYieldsTo(job);
    const bool long_enough = std::all_of(yields.begin(), yields.end(), [&](const std::string& id) {
      return now - needs_.Find(id)->since >= options_.yield_after;
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
      WorkerNeed need = *needs_.Find(id);
      need.since = now;
      needs_.Put(id, std::move(need));
    }
  }
}

}  // namespace baton::controller
