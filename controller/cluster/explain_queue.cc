#include "controller/cluster/explain_queue.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "controller/cluster/need_queue.h"
#include "controller/cluster/reservations.h"
#include "controller/cluster/stuck_jobs.h"
#include "sdk/common/contracts/up_workers.h"
#include "sdk/common/messages/times.h"

namespace baton::controller {
namespace {

// "role actor", "roles actor and critic together".
std::string RolesPhrase(const std::string& roles) {
  const std::vector<std::string> all = RolesOfWorkerSlot(roles);
  if (all.size() == 1) return absl::StrCat("role ", all[0]);
  return absl::StrCat("roles ", absl::StrJoin(all, " and "), " together");
}

std::string ShortName(const std::string& job) { return job.substr(job.rfind('/') + 1); }

// The first kind of `baton up`'s workers that plays all of these roles; null: none does.
const UpWorkers* UpKindFor(const std::string& roles) {
  const std::vector<std::string> all = RolesOfWorkerSlot(roles);
  for (const UpWorkers& kind : kUpWorkers) {
    const std::vector<std::string> played = absl::StrSplit(kind.roles, ',');
    if (std::all_of(all.begin(), all.end(), [&](const std::string& role) {
          return std::count(played.begin(), played.end(), role) > 0;
        })) {
      return &kind;
    }
  }
  return nullptr;
}

// The attached workers that play the roles of a worker slot, as seen by a job that asks for it.
// Each is counted once.
struct WorkerCounts {
  std::string roles;
  int attached = 0;
  int free = 0;
  int drained = 0;
  std::vector<std::string> stuck;   // drained, because they have not left their last role
  int elsewhere = 0;                // with other projects, or bound to them …
  int offered_elsewhere = 0;        // … and fit to take the worker slot
  std::map<std::string, int> held;  // by job of the project
  std::map<std::pair<std::string, MissingSupport>, int> missing;  // by role and what is not offered

  /// No attached worker offers what the worker slot needs.
  bool NobodyOffers() const {
    return missing.size() == 1 && offered_elsewhere == 0 &&
           missing.begin()->second + elsewhere == attached;
  }
  std::string Text() const;
};

std::string WorkerCounts::Text() const {
  if (attached == 0) {
    return absl::StrContains(roles, "+")
               ? absl::StrCat("no attached worker plays ", RolesPhrase(roles))
               : absl::StrCat("no worker of ", RolesPhrase(roles), " is attached");
  }
  if (NobodyOffers()) {
    const auto& [role, support] = missing.begin()->first;
    return absl::StrCat("no attached worker of role ", role, " ", SupportText(support));
  }
  std::vector<std::string> parts;
  const auto are = [](int count) { return absl::StrCat(count, count == 1 ? " is" : " are"); };
  for (const auto& [job, count] : held) {
    parts.push_back(absl::StrCat("job ", job, " has ", attached == 1 ? "it" : absl::StrCat(count)));
  }
  if (elsewhere > 0) parts.push_back(absl::StrCat("other projects have ", elsewhere));
  if (free > 0) parts.push_back(absl::StrCat(are(free), " free"));
  if (drained > 0) parts.push_back(absl::StrCat(are(drained), " drained"));
  for (const std::string& id : stuck) {
    parts.push_back(absl::StrCat("worker ", id,
                                 " has not left its last role (restart it if it does "
                                 "not end by itself)"));
  }
  for (const auto& [what, count] : missing) {
    parts.push_back(absl::StrCat(count, " ", MissingSupportText(what.second, count)));
  }
  return absl::StrCat(attached, attached == 1 ? " worker" : " workers", " of ", RolesPhrase(roles),
                      attached == 1 ? " is" : " are", " attached: ", absl::StrJoin(parts, ", "));
}

WorkerCounts CountWorkers(const ClusterWorkers& workers, const std::string& roles,
                          const std::string& job, const RoleNeeds& needs) {
  WorkerCounts out;
  out.roles = roles;
  const std::vector<std::string> all = RolesOfWorkerSlot(roles);
  for (const auto& [id, worker] : workers.all()) {
    if (worker.session == 0 || !PlaysAll(worker, all)) continue;
    ++out.attached;
    auto missing = MissingIn(worker, all, needs);
    const bool others = !worker.job.empty() && ProjectId(worker.job) != ProjectId(job);
    if (!MayWorkFor(worker, ProjectId(job)) || (others && missing.second.none())) {
      ++out.elsewhere;  // a user does not see what other projects run
      if (missing.second.none()) ++out.offered_elsewhere;
    } else if (!missing.second.none()) {
      ++out.missing[std::move(missing)];
    } else if (worker.stuck) {
      out.stuck.push_back(id);
    } else if (worker.draining) {
      ++out.drained;
    } else if (worker.job.empty()) {
      ++out.free;
    } else {
      ++out.held[ShortName(worker.job)];
    }
  }
  return out;
}

// Advice for a person, so that the job gets its workers. `up_workers`: as in ClusterOptions.
std::string Remedy(const std::vector<WorkerCounts>& lacking,
                   const std::map<std::string, int>& wanted,
                   const std::map<std::string, int>& up_workers) {
  std::vector<std::string> remedies, commands;
  std::map<std::string, int> options;  // of `baton up`
  for (const WorkerCounts& attendance : lacking) {
    const std::vector<std::string> all = RolesOfWorkerSlot(attendance.roles);
    const UpWorkers* kind = UpKindFor(attendance.roles);
    if (attendance.NobodyOffers()) {
      const auto& [role, support] = attendance.missing.begin()->first;
      remedies.push_back(MissingSupportRemedy(role, support));
    } else if (kind == nullptr) {
      remedies.push_back(
          absl::StrCat("start the worker that plays ", RolesPhrase(attendance.roles)));
    } else if (up_workers.empty()) {
      commands.push_back(absl::StrCat("`baton-worker --roles ", absl::StrJoin(all, ","), "`"));
    } else {
      const std::string option(kind->option);
      const auto running = up_workers.find(option);
      int& count =
          options.emplace(option, running == up_workers.end() ? 0 : running->second).first->second;
      count += wanted.at(attendance.roles) - attendance.free;
    }
  }
  if (!commands.empty()) {
    remedies.push_back(absl::StrCat("start more with ", absl::StrJoin(commands, ", ")));
  }
  if (!options.empty()) {
    const auto flag = [](std::string* out, const std::pair<const std::string, int>& option) {
      absl::StrAppend(out, "--", option.first, " ", option.second);
    };
    remedies.push_back(absl::StrCat("start more: `baton down`, then `baton up ",
                                    absl::StrJoin(options, " ", flag), "`; all jobs then go on"));
  }
  return absl::StrJoin(remedies, "; ");
}

// Free workers that are kept for this job, or for others from this job.
void ExplainReservations(const ClusterParts& cluster, const std::string& job,
                         const WorkerNeed& need, std::vector<std::string>* parts) {
  if (need.active) return;
  int64_t unused = 0;
  std::map<std::string, int> kept;  // by the job that they are kept for
  for (const auto& [id, reservation] : ReserveWorkers(cluster, &unused)) {
    const ClusterWorker& worker = cluster.workers.all().at(id);
    const bool wanted =
        std::any_of(need.missing.begin(), need.missing.end(), [&](const auto& roles) {
          return Fits(worker, ProjectId(job), RolesOfWorkerSlot(roles.first), need.needs);
        });
    if (wanted && (reservation.job == job || !reservation.Admits(job, need))) {
      ++kept[reservation.job];
    }
  }
  for (const auto& [holder, count] : kept) {
    const std::string workers =
        absl::StrCat(count, count == 1 ? " free worker is" : " free workers are", " reserved for ");
    parts->push_back(holder == job
                         ? absl::StrCat(workers, "it")
                         : absl::StrCat(workers, NameForThoseOf(ProjectId(job), holder),
                                        ", which has waited longer and needs more at once"));
  }
}

void ExplainWorkers(const ClusterParts& cluster, const std::string& job, const WorkerNeed& need,
                    absl::Time now, v1::Wait* wait) {
  int wanted = 0;
  for (const auto& [roles, missing] : need.missing) wanted += missing;
  std::vector<WorkerCounts> all, lacking;
  std::map<std::string, int> few;  // that are fewer than the job needs
  for (const auto& [roles, missing] : need.missing) {
    if (missing == 0) continue;
    all.push_back(CountWorkers(cluster.workers, roles, job, need.needs));
    if (all.back().free >= missing) continue;
    few.emplace(roles, missing);
    lacking.push_back(all.back());
  }
  const bool enough_each = few.empty();
  std::vector<std::string> parts = {
      absl::StrCat(WantedText(enough_each ? need.missing : few), kToAttach)};
  const int limit = cluster.quotas.LimitOf(ProjectId(job));
  const int held = cluster.workers.HeldBy(ProjectId(job));
  const bool limited = limit > 0 && std::max(0, limit - held) < wanted;
  if (limited) {
    parts.push_back(
        absl::StrCat("project ", ProjectId(job), " holds ", held, " workers and may hold ", limit));
  }
  for (const WorkerCounts& attendance : enough_each ? all : lacking) {
    parts.push_back(attendance.Text());
  }
  wait->set_action(absl::StrCat(need.active ? "it goes on" : "it starts",
                                " as soon as these workers are there"));
  if (const std::string remedy =
          limited ? "" : Remedy(lacking, need.missing, cluster.options.up_workers);
      !remedy.empty()) {
    wait->set_action(absl::StrCat(wait->action(), "; ", remedy));
  }
  std::string worker_slot;
  if (const auto chain = ChainFor(cluster, job, need, &worker_slot); chain.size() > 1) {
    parts.push_back(absl::StrCat("worker ", chain[0].id, " moves from ", chain[0].roles, " to ",
                                 worker_slot, ", and worker ", chain.back().id, " is free"));
    *wait->mutable_deadline_in() = ToProto(need.since + cluster.options.rearrange_after - now);
    wait->set_action("that worker moves");
  }
  if (const std::vector<std::string> yields = JobsYieldingTo(cluster, job); !yields.empty()) {
    absl::Time since = need.since;
    for (const std::string& id : yields) {
      parts.push_back(absl::StrCat(NameForThoseOf(ProjectId(job), id),
                                   " cannot go on either, and gives its workers back"));
      since = std::max(since, cluster.needs.Find(id)->since);
    }
    *wait->mutable_deadline_in() = ToProto(since + cluster.options.yield_after - now);
    wait->set_action("this job gets those workers");
  }
  // A worker that plays several roles is counted for each of them, and takes one.
  const auto& all_workers = cluster.workers.all();
  const auto free = std::count_if(all_workers.begin(), all_workers.end(), [&](const auto& entry) {
    const ClusterWorker& worker = entry.second;
    return worker.free() &&
           std::any_of(need.missing.begin(), need.missing.end(), [&](const auto& roles) {
             return roles.second > 0 &&
                    Fits(worker, ProjectId(job), RolesOfWorkerSlot(roles.first), need.needs);
           });
  });
  if (enough_each && free > 0 && free < wanted) {
    parts.push_back(absl::StrCat(wanted, " are needed together, and ", free,
                                 free == 1 ? " is free" : " are free"));
  }
  ExplainReservations(cluster, job, need, &parts);
  wait->set_cause(absl::StrJoin(parts, "; "));
}

}  // namespace

void ExplainQueue(const ClusterParts& cluster, const std::string& job, absl::Time now,
                  v1::ExplainJobResponse* answer) {
  const WorkerNeed* need = cluster.needs.Find(job);
  for (v1::Wait& wait : *answer->mutable_waits()) {
    if (wait.kind() == "workers" && need != nullptr)
      ExplainWorkers(cluster, job, *need, now, &wait);
  }
  v1::ExplainJobResponse roots;
  for (const auto& [id, worker] : cluster.workers.all()) {
    if (worker.job != job || now - worker.seen < 2 * cluster.options.heartbeat_interval) continue;
    v1::Wait& wait = *roots.add_waits();
    wait.set_kind("heartbeat");
    wait.set_subject(absl::StrCat("worker ", id));
    wait.set_cause(worker.session == 0
                       ? "its process to attach again; its stream is broken"
                       : absl::StrCat("a heartbeat of its process ", worker.hello.pid(), " on ",
                                      worker.hello.host(), ", which is attached but silent"));
    *wait.mutable_since() = ToProto(now - worker.seen);
    *wait.mutable_deadline_in() = ToProto(worker.lease_end - now);
    wait.set_action("its lease ends and its work moves to another worker");
  }
  roots.mutable_waits()->MergeFrom(answer->waits());
  answer->mutable_waits()->Swap(roots.mutable_waits());
}

}  // namespace baton::controller
