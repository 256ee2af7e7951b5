#include "controller/cluster/cluster_core.h"

#include <utility>

#include "absl/status/status.h"
#include "controller/cluster/explain_queue.h"
#include "controller/cluster/match_workers.h"
#include "controller/cluster/reservations.h"
#include "controller/cluster/stuck_jobs.h"

namespace baton::controller {

ClusterCore::ClusterCore(uint64_t epoch, const ClusterOptions& options)
    : epoch_(epoch), cluster_(epoch, options) {}

void ClusterCore::Match(ClusterEffects& effects) {
  if (in_turn_) {
    changed_ = true;
    return;
  }
  examined_ += MatchWorkers(cluster_, effects);
}

ClusterEffects ClusterCore::EndTurn() {
  ClusterEffects effects;
  in_turn_ = false;
  if (std::exchange(changed_, false)) Match(effects);
  const bool workers_changed = std::exchange(follows_, false) || !effects.empty();
  cluster_.relays.Follow(cluster_.workers, workers_changed, effects);
  return effects;
}

ClusterEffects ClusterCore::Done(ClusterEffects effects, bool workers_changed) {
  if (in_turn_) {
    follows_ |= workers_changed;
  } else {
    cluster_.relays.Follow(cluster_.workers, workers_changed, effects);
  }
  return effects;
}

ClusterEffects ClusterCore::OnHello(uint64_t session, const v1::Hello& hello, absl::Time now,
                                    const std::string& project) {
  ClusterEffects effects;
  if (!cluster_.workers.OnHello(session, hello, now, project, effects)) return effects;
  if (hello.has_relay()) {
    cluster_.relays.OnRelay(cluster_.workers.WorkerOf(session), hello, project);
  }
  Match(effects);
  return Done(std::move(effects));
}

ClusterEffects ClusterCore::OnClosed(uint64_t session, absl::Time now) {
  const std::string worker = cluster_.workers.WorkerOf(session);
  cluster_.workers.OnClosed(session);
  cluster_.relays.OnAway(worker, now + cluster_.options.lease);
  return {};
}

void ClusterCore::OnHeartbeats(uint64_t session, absl::Time at) {
  cluster_.workers.OnHeartbeats(session, at);
}

ClusterEffects ClusterCore::OnTick(absl::Time now) {
  ClusterEffects effects;
  cluster_.workers.EndLeases(now, effects);
  cluster_.relays.OnTick(cluster_.workers, now);
  // Also within a turn: worker slots are rearranged once free workers have theirs.
  changed_ = false;
  MarkReserving(cluster_, now);
  examined_ += MatchWorkers(cluster_, effects);
  Rearrange(cluster_, now, effects);
  Yield(cluster_, now, effects);
  const bool changed = !effects.empty();
  return Done(std::move(effects), changed);
}

ClusterEffects ClusterCore::OnNeed(const std::string& job, int priority, int64_t order, bool active,
                                   const std::map<std::string, int>& missing, absl::Time now,
                                   const WorkerSlotHints& hints, const RoleNeeds& needs) {
  ClusterEffects effects;
  if (missing.empty()) {
    cluster_.needs.Erase(job);
  } else {
    // A job that lacks blocking worker slots has waited since they were first missing, even if its
    // need changes meanwhile.
    const WorkerNeed* before = cluster_.needs.Find(job);
    const bool blocked = before != nullptr && !before->hints.blocking.empty();
    const absl::Time since = blocked ? before->since : now;
    const bool waits_on = before != nullptr && !before->active && !active;
    const absl::Time queued = waits_on ? before->queued : now;
    const bool reserves = waits_on && before->reserves;
    cluster_.needs.Put(job,
                       {priority, order, active, missing, needs, hints, since, queued, reserves});
  }
  Match(effects);
  return Done(std::move(effects));
}

ClusterEffects ClusterCore::OnReturn(const std::string& job, const std::string& worker,
                                     absl::Time /*now*/, ReturnReason return_reason) {
  ClusterEffects effects;
  cluster_.workers.OnReturn(job, worker, return_reason);
  Match(effects);
  return Done(std::move(effects));
}

ClusterEffects ClusterCore::OnReleased(const std::string& worker, const std::string& job) {
  ClusterEffects effects;
  if (cluster_.workers.OnReleased(worker, job)) Match(effects);
  return effects;
}

// A grant that the job did not want comes back by OnReturn: the grant may still be on its way.
void ClusterCore::OnLeave(const std::string& job) {
  cluster_.needs.Erase(job);
  cluster_.relays.Forget(job);
  follows_ = true;
}

ClusterEffects ClusterCore::OnPublisher(const std::string& job, const std::string& worker) {
  cluster_.relays.OnPublisher(job, worker);
  return Done({}, /*workers_changed=*/false);
}

ClusterEffects ClusterCore::OnRelayReport(uint64_t session, const v1::RelayReport& report) {
  cluster_.relays.OnReport(cluster_.workers.WorkerOf(session), report);
  return Done({}, /*workers_changed=*/false);
}

void ClusterCore::Expect(const std::string& job, const std::string& worker,
                         const std::string& roles, absl::Time now) {
  cluster_.workers.Expect(job, worker, roles, now);
}

absl::StatusOr<ClusterEffects> ClusterCore::OnDrain(const std::string& worker, absl::Time /*now*/) {
  ClusterEffects effects;
  absl::Status drained = cluster_.workers.OnDrain(worker, effects);
  if (!drained.ok()) return drained;
  Match(effects);
  return effects;
}

absl::StatusOr<ClusterEffects> ClusterCore::OnUndrain(const std::string& worker) {
  ClusterEffects effects;
  absl::Status undrained = cluster_.workers.OnUndrain(worker);
  if (!undrained.ok()) return undrained;
  Match(effects);
  return effects;
}

void ClusterCore::KeepDrained(const std::string& worker, const std::string& reason) {
  cluster_.workers.KeepDrained(worker, reason);
}

void ClusterCore::Explain(const std::string& job, absl::Time now,
                          v1::ExplainJobResponse* answer) const {
  ExplainQueue(cluster_, job, now, answer);
}

}  // namespace baton::controller
