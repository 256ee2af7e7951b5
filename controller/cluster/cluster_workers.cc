#include "controller/cluster/cluster_workers.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/cluster/need_queue.h"
#include "controller/spec/dataflow/role_names.h"
#include "sdk/common/base/cut_text.h"
#include "sdk/common/contracts/text_bounds.h"
#include "sdk/common/messages/times.h"

namespace baton::controller {
namespace {

constexpr size_t kMostNamed = 5;  // workers in an error

// The method whose credits limit what a role takes at once.
std::string MainMethod(const std::string& role) {
  if (role == roles::kRollout) return "generate";
  if (role == roles::kActor) return "compute_log_prob";
  return "compute_" + role;
}

bool ValidWorkerId(const std::string& id) {
  return !id.empty() && id.size() <= 63 && std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  });
}

int CreditsOf(const ClusterWorker& worker, const std::string& role, const RoleNeeds& needs) {
  const auto need = needs.find(role);
  // If the job will call several methods, the slowest one limits what is sent ahead.
  int any = 1, scoring = std::numeric_limits<int>::max();
  for (const v1::MethodCredits& m : worker.hello.methods()) {
    if (m.role() != role || need == needs.end()) continue;
    if (need->second.scores.count(m.method()) > 0) scoring = std::min(scoring, m.credits());
  }
  if (scoring != std::numeric_limits<int>::max()) return std::max(1, scoring);
  for (const v1::MethodCredits& m : worker.hello.methods()) {
    if (m.role() != role) continue;
    if (m.method() == MainMethod(role)) return std::max(1, m.credits());
    if (m.method() != "assign_role" && m.method() != "release_role") {
      any = std::max(any, m.credits());
    }
  }
  return any;
}

// The project of a name.
std::string ProjectOfName(const std::string& name) {
  const size_t slash = name.find('/');
  return slash == std::string::npos ? "*" : name.substr(0, slash);
}

// The worker has left its last role.
void Unstick(ClusterWorker& worker) {
  if (!std::exchange(worker.stuck, false) || worker.kept_drained) return;
  worker.draining = false;
  worker.drain_reason.clear();
}

void Drain(ClusterWorker& worker, const std::string& reason) {
  worker.draining = true;
  worker.drain_reason = reason;
}

}  // namespace

std::string WorkerName(const std::string& project, const std::string& id) {
  return project == "*" ? id : absl::StrCat(project, "/", id);
}

bool PlaysAll(const ClusterWorker& worker, const std::vector<std::string>& roles) {
  return std::all_of(roles.begin(), roles.end(),
                     [&](const std::string& role) { return PlaysRole(worker.hello, role); });
}

bool MayWorkFor(const ClusterWorker& worker, const std::string& project) {
  return worker.project == "*" || worker.project == project;
}

std::pair<std::string, MissingSupport> MissingIn(const ClusterWorker& worker,
                                                 const std::vector<std::string>& roles,
                                                 const RoleNeeds& needs) {
  for (const std::string& role : roles) {
    const auto need = needs.find(role);
    if (need == needs.end()) continue;
    MissingSupport missing = MissingFrom(worker.hello, role, need->second);
    if (!missing.none()) return {role, std::move(missing)};
  }
  return {};
}

bool Fits(const ClusterWorker& worker, const std::string& project,
          const std::vector<std::string>& roles, const RoleNeeds& needs) {
  return PlaysAll(worker, roles) && MayWorkFor(worker, project) &&
         MissingIn(worker, roles, needs).second.none();
}

bool ClusterWorkers::OnHello(uint64_t session, const v1::Hello& hello, absl::Time now,
                             const std::string& project, ClusterEffects& effects) {
  // Refusals change nothing: a worker that is refused may try again, or another one attaches.
  auto refuse = [&](const std::string& reason, const absl::Status& status) {
    effects.push_back(ClusterRefuse{session, reason, status});
    return false;
  };
  if (!ValidWorkerId(hello.worker_id())) {
    return refuse("WORKER_ID", absl::InvalidArgumentError(absl::StrCat(
                                   "worker id '", hello.worker_id(),
                                   "' is not 1-63 characters of a-z, 0-9, '-' and '.'; "
                                   "give one with --id")));
  }
  if (hello.protocol_max() < options_.protocol_min ||
      hello.protocol_min() > options_.protocol_max) {
    return refuse(
        "PROTOCOL_VERSION",
        absl::FailedPreconditionError(absl::StrCat(
            "worker ", hello.worker_id(), " speaks protocol versions ", hello.protocol_min(), "-",
            hello.protocol_max(), ", this controller ", options_.protocol_min, "-",
            options_.protocol_max, "; install the same release on both")));
  }
  // Two controllers on one store: the worker has met the newer controller, and obeys it.
  if (hello.epoch_seen() > epoch_) {
    return refuse("STALE_CONTROLLER",
                  absl::FailedPreconditionError(absl::StrCat(
                      "worker ", hello.worker_id(), " has seen epoch ", hello.epoch_seen(),
                      ", this controller is of epoch ", epoch_, ": a newer one is running")));
  }
  const std::string name = WorkerName(project, hello.worker_id());
  ClusterWorker& worker = workers_[name];
  const bool other_process =
      !worker.hello.instance_id().empty() &&
      (worker.hello.instance_id() != hello.instance_id() || worker.project != project);
  if (other_process && worker.session != 0 && worker.lease_end > now) {
    return refuse("WORKER_ID_TAKEN",
                  absl::AlreadyExistsError(
                      absl::StrCat("another process is attached as worker '", name,
                                   "'; give this one another --id, or wait until its lease ends")));
  }
  const std::vector<std::string> granted = RolesOfWorkerSlot(worker.roles);
  const auto wanted = [&](const v1::RoleHeld& held) {
    return !worker.job.empty() && held.job() == worker.job &&
           std::count(granted.begin(), granted.end(), held.role()) > 0;
  };
  // The worker goes on with its job if it holds some role of the job, or is about to.
  const bool holds = std::any_of(hello.roles_held().begin(), hello.roles_held().end(), wanted);
  // An assign_role task may be under way, so the role is not held yet.
  const bool assigning = !other_process && !worker.hello.instance_id().empty();
  worker.project = project;
  // A controller that was restarted itself does not know the process: a new one has seen no epoch.
  const bool restarted = other_process || hello.epoch_seen() == 0;
  if (!worker.job.empty() && (other_process || (!holds && !assigning))) {
    Lose(name, restarted ? "its process was restarted" : "it gave up its role while it was cut off",
         effects);
  }
  // The newest stream is the worker's. A drain that was meant for the old process ends with it.
  if (worker.session != 0) sessions_.erase(worker.session);
  if (other_process || hello.running_size() == 0) Unstick(worker);
  if (other_process) {
    worker.silences = 0;
    if (!worker.kept_drained) {
      worker.draining = false;
      worker.drain_reason.clear();
    }
  }
  worker.hello = hello;
  worker.session = session;
  worker.seen = now;
  worker.lease_end = now + options_.lease;
  sessions_[session] = name;
  // Roles of other jobs are stale: those jobs went on without it.
  ClusterWelcome welcome;
  welcome.session = session;
  welcome.worker = name;
  welcome.protocol = std::min(hello.protocol_max(), options_.protocol_max);
  for (const v1::RoleHeld& held : hello.roles_held()) {
    if (!wanted(held)) welcome.release.push_back(held);
  }
  effects.push_back(std::move(welcome));
  if (!worker.job.empty()) {
    effects.push_back(ClusterReconnected{worker.job, name, hello});
  }
  return true;
}

void ClusterWorkers::OnClosed(uint64_t session) {
  auto it = sessions_.find(session);
  if (it == sessions_.end()) return;
  ClusterWorker& worker = workers_.at(it->second);
  const std::string id = it->second;
  sessions_.erase(it);
  // The worker's lease goes on: the network may be back before it ends.
  worker.session = 0;
  if (worker.job.empty() && !worker.draining) workers_.erase(id);  // a drain outlives the stream
}

void ClusterWorkers::OnHeartbeats(uint64_t session, absl::Time at) {
  auto it = sessions_.find(session);
  if (it == sessions_.end()) return;
  ClusterWorker& worker = workers_.at(it->second);
  worker.seen = at;
  worker.lease_end = at + options_.lease;
}

void ClusterWorkers::Lose(const std::string& id, const std::string& reason,
                          ClusterEffects& effects) {
  ClusterWorker& worker = workers_.at(id);
  if (worker.job.empty()) return;
  effects.push_back(ClusterLost{worker.job, id, reason});
  worker.job.clear();
  worker.roles.clear();
}

// The worker is gone, but the fact that an operator drained it is kept.
void ClusterWorkers::Forget(const std::string& id) {
  const ClusterWorker gone = workers_.at(id);
  workers_.erase(id);
  if (gone.kept_drained) KeepDrained(id, gone.drain_reason);
}

void ClusterWorkers::EndLeases(absl::Time now, ClusterEffects& effects) {
  std::vector<std::string> ended;  // first, for losing one changes the map
  for (const auto& [id, worker] : workers_) {
    if (worker.lease_end <= now) ended.push_back(id);
  }
  for (const std::string& id : ended) {
    ClusterWorker& worker = workers_.at(id);
    Lose(id, "its lease ended without a heartbeat", effects);
    if (worker.session != 0) {
      effects.push_back(ClusterRefuse{
          worker.session, "LEASE_ENDED",
          absl::DeadlineExceededError(absl::StrCat("no heartbeat of worker ", id, " for ",
                                                   absl::FormatDuration(options_.lease)))});
      sessions_.erase(worker.session);
    }
    Forget(id);
  }
}

void ClusterWorkers::Grant(const std::string& id, const std::string& job, const std::string& roles,
                           const RoleNeeds& needs, ClusterEffects& effects) {
  ClusterWorker& worker = workers_.at(id);
  worker.job = job;
  worker.roles = roles;
  worker.left.clear();
  ClusterGrant grant{job, id, roles, {}};
  for (const std::string& role : RolesOfWorkerSlot(roles)) {
    grant.credits[role] = CreditsOf(worker, role, needs);
  }
  effects.push_back(std::move(grant));
}

void ClusterWorkers::OnReturn(const std::string& job, const std::string& id,
                              ReturnReason return_reason) {
  const auto it = workers_.find(id);
  if (it == workers_.end() || it->second.job != job) return;
  ClusterWorker& worker = it->second;
  // The worker's release may have come while the job gave it back.
  if (return_reason == ReturnReason::kStuck && worker.left != job && !worker.draining) {
    worker.stuck = true;
    Drain(worker, absl::StrCat("it has not left its last role, ", worker.roles,
                               ", in time; restart its process if it does not end by itself"));
  }
  worker.job.clear();
  worker.roles.clear();
  // A worker that misses deadlines job after job is drained: it would spoil them all.
  worker.silences = return_reason == ReturnReason::kSilent ? worker.silences + 1 : 0;
  if (worker.silences >= options_.max_silences) {
    Drain(worker, absl::StrCat("it missed ", worker.silences, " deadlines"));
  } else if (return_reason == ReturnReason::kSlow) {
    Drain(worker, absl::StrCat("it was slower than its peers in ", job));
  }
  if (worker.session == 0 && !worker.draining) workers_.erase(it);
}

bool ClusterWorkers::OnReleased(const std::string& id, const std::string& job) {
  const auto it = workers_.find(id);
  if (it == workers_.end()) return false;
  it->second.left = job;
  if (!it->second.stuck) return false;
  Unstick(it->second);
  return it->second.free();
}

void ClusterWorkers::Expect(const std::string& job, const std::string& id, const std::string& roles,
                            absl::Time now) {
  // The worker may come back within one lease. Until then, its worker slot is not granted to
  // another one.
  ClusterWorker& expected = workers_[id];
  expected.job = job;
  expected.roles = roles;
  expected.seen = now;
  expected.lease_end = now + options_.lease;
  expected.hello.set_worker_id(id);
  expected.project = ProjectOfName(id);
}

void ClusterWorkers::KeepDrained(const std::string& id, const std::string& reason) {
  const auto [worker, fresh] = workers_.try_emplace(id);
  Drain(worker->second, reason);
  worker->second.kept_drained = true;
  if (!fresh) return;
  worker->second.hello.set_worker_id(id);
  worker->second.project = ProjectOfName(id);
  worker->second.seen = absl::InfinitePast();
  worker->second.lease_end = absl::InfiniteFuture();  // it has none that could end
}

absl::Status ClusterWorkers::Unknown(const std::string& id) const {
  std::vector<std::string> meant;
  for (const auto& [name, worker] : workers_) {
    const bool same = absl::EndsWith(name, absl::StrCat("/", id));
    if (same && meant.size() < kMostNamed) meant.push_back(absl::StrCat("'", name, "'"));
  }
  return absl::NotFoundError(
      absl::StrCat("no worker '", CutText(id, kNameBytes), "' is attached or drained; ",
                   meant.empty() ? "`baton workers` lists them"
                                 : absl::StrCat("there is ", absl::StrJoin(meant, ", "),
                                                ": name one as `baton workers` does")));
}

absl::Status ClusterWorkers::OnDrain(const std::string& id, ClusterEffects& effects) {
  auto it = workers_.find(id);
  if (it == workers_.end()) {
    return Unknown(id);
  }
  KeepDrained(id, "a user asked for it");
  Lose(id, "it is drained", effects);
  return absl::OkStatus();
}

absl::Status ClusterWorkers::OnUndrain(const std::string& id) {
  const auto it = workers_.find(id);
  if (it == workers_.end()) {
    return Unknown(id);
  }
  ClusterWorker& worker = it->second;
  worker.draining = worker.kept_drained = worker.stuck = false;
  worker.drain_reason.clear();
  worker.silences = 0;
  // The worker was known only because it was drained.
  if (worker.session == 0 && worker.job.empty()) workers_.erase(it);
  return absl::OkStatus();
}

std::vector<v1::Worker> ClusterWorkers::List(absl::Time now, const std::string& after,
                                             size_t most) const {
  std::vector<v1::Worker> out;
  for (auto it = workers_.upper_bound(after); it != workers_.end() && out.size() < most; ++it) {
    const auto& [id, worker] = *it;
    v1::Worker w;
    w.set_worker_id(id);
    w.set_instance_id(worker.hello.instance_id());
    w.set_state(worker.draining       ? v1::Worker::STATE_DRAINING
                : worker.session != 0 ? v1::Worker::STATE_READY
                                      : v1::Worker::STATE_LOST);
    w.set_drain_reason(worker.drain_reason);
    w.set_host(worker.hello.host());
    std::set<std::string> roles;
    for (const v1::MethodCredits& m : worker.hello.methods()) roles.insert(m.role());
    for (const std::string& role : roles) w.add_roles(role);
    w.set_job(worker.job);
    if (worker.project != "*") w.set_project(worker.project);
    w.set_role(worker.roles);
    w.set_device(worker.hello.device());
    w.set_pid(worker.hello.pid());
    if (worker.seen != absl::InfinitePast()) *w.mutable_last_seen() = ToProto(now - worker.seen);
    out.push_back(std::move(w));
  }
  return out;
}

uint64_t ClusterWorkers::SessionOf(const std::string& id) const {
  auto it = workers_.find(id);
  return it == workers_.end() ? 0 : it->second.session;
}

std::string ClusterWorkers::WorkerOf(uint64_t session) const {
  auto it = sessions_.find(session);
  return it == sessions_.end() ? "" : it->second;
}

std::string ClusterWorkers::JobOf(const std::string& id) const {
  auto it = workers_.find(id);
  return it == workers_.end() ? "" : it->second.job;
}

std::string ClusterWorkers::FindMethod(const std::string& role, const std::string& method,
                                       const std::string& project) const {
  for (const auto& [id, worker] : workers_) {
    if (worker.session == 0 || !MayWorkFor(worker, project)) continue;
    for (const v1::MethodCredits& m : worker.hello.methods()) {
      if (m.role() == role && m.method() == method) return id;
    }
  }
  return "";
}

int ClusterWorkers::HeldBy(const std::string& project) const {
  return static_cast<int>(std::count_if(workers_.begin(), workers_.end(), [&](const auto& entry) {
    return !entry.second.job.empty() && ProjectId(entry.second.job) == project;
  }));
}

}  // namespace baton::controller
