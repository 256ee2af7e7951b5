// Workers, leases and the queue: which job gets which workers.
//
// Pure. A worker is granted to one job at a time, for one worker slot: a role, or several that
// share it, which are named together, joined by "+". Jobs are served by priority, then by order of
// submission; a job that starts gets everything it asked for at once or nothing, so two
// half-started jobs never wait for each other, and a job that does not fit leaves what is free to
// those behind it, until it has waited for so long that free workers are kept for it
// (reservations.h). A running job that lost a worker is served before any job that has not started.
//
// A worker's lease is renewed by its heartbeats. When its stream breaks, the job keeps it until
// the lease ends: the same process may come back. After a controller restart, the workers that
// jobs held are expected for one lease.
//
// If a job cannot go on because no free worker plays a missing worker slot, its own workers change
// their worker slots where that helps (stuck_jobs.h). If two jobs cannot go on because each lacks a
// worker that the other one holds, the later job gives its workers back and waits in the queue
// again.
//
// The relays of a job's hosts form a chain (relay_chains.h).
//
// Among jobs of equal priority that wait alike, the job whose project holds the fewest workers for
// its weight goes first; a project never holds more workers than its limit.
#ifndef BATON_CONTROLLER_CLUSTER_CLUSTER_CORE_H_
#define BATON_CONTROLLER_CLUSTER_CLUSTER_CORE_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "baton/v1/access_service.pb.h"
#include "baton/v1/job_service.pb.h"
#include "baton/v1/worker_service.pb.h"
#include "controller/cluster/cluster_effects.h"
#include "controller/cluster/cluster_options.h"
#include "controller/cluster/cluster_parts.h"
#include "controller/cluster/worker_exchange.h"
#include "controller/spec/dataflow/role_needs.h"

namespace baton::controller {

/// Events change the parts of the cluster (cluster_parts.h); after each event, free workers are
/// matched with what jobs lack (match_workers.h). Not thread-safe.
class ClusterCore {
 public:
  ClusterCore(uint64_t epoch, const ClusterOptions& options);

  /// Until EndTurn, events only note that something changed, and EndTurn matches once for all of
  /// them. Outside of a turn each event matches for itself.
  void BeginTurn() { in_turn_ = true; }
  ClusterEffects EndTurn();

  /// A stream said Hello. `session` is the runtime's number for it.
  /// `project`: the only one whose jobs this worker may get; "*": all.
  ClusterEffects OnHello(uint64_t session, const v1::Hello& hello, absl::Time now,
                         const std::string& project = "*");
  /// The stream ended. Nothing happens to a worker that has a newer one.
  ClusterEffects OnClosed(uint64_t session, absl::Time now);
  /// The stream's heartbeats came in time, each before the lease of the one before it had ended;
  /// the last one at `at`.
  void OnHeartbeats(uint64_t session, absl::Time at);
  ClusterEffects OnTick(absl::Time now);

  /// Sets what a job still lacks, roles of a worker slot -> count; replaces what it asked before.
  /// `active` jobs have started already. `needs`: what a worker must offer in each role; a role
  /// that `needs` does not name is open to every worker that has a method of the role.
  ClusterEffects OnNeed(const std::string& job, int priority, int64_t order, bool active,
                        const std::map<std::string, int>& missing, absl::Time now,
                        const WorkerSlotHints& hints = {}, const RoleNeeds& needs = {});
  /// A job gives a worker back. Other workers are granted before a silent one; after `max_silences`
  /// in a row, or when it is slow, a worker gets no work until its process is restarted.
  ClusterEffects OnReturn(const std::string& job, const std::string& worker, absl::Time now,
                          ReturnReason return_reason = ReturnReason::kGood);
  /// A worker says that it has left a role of `job`, which may have given it back before.
  ClusterEffects OnReleased(const std::string& worker, const std::string& job);
  /// A job asks for nothing any more.
  void OnLeave(const std::string& job);
  /// A job's versions come from this worker from now on.
  ClusterEffects OnPublisher(const std::string& job, const std::string& worker);
  /// What the relay of a stream has of jobs' versions; ignored from other workers.
  ClusterEffects OnRelayReport(uint64_t session, const v1::RelayReport& report);
  /// A restarted controller: `job` held this worker, which has one lease to come back.
  void Expect(const std::string& job, const std::string& worker, const std::string& roles,
              absl::Time now);
  /// An operator drains a worker. The worker stays drained until OnUndrain, even if its lease ends
  /// or its process is restarted. NotFound for an unknown worker.
  absl::StatusOr<ClusterEffects> OnDrain(const std::string& worker, absl::Time now);
  /// Takes any drain back. NotFound for an unknown worker.
  absl::StatusOr<ClusterEffects> OnUndrain(const std::string& worker);
  /// A restarted controller: an operator had drained this worker, which may or may not attach.
  void KeepDrained(const std::string& worker, const std::string& reason);

  /// A project's weight and its limit of workers count from the next turn on.
  void SetProject(const v1::Project& project) { cluster_.quotas.Set(project); }
  /// Adds what the cluster knows of a job's waits: first the job's workers that have been silent
  /// for two heartbeats; then, if the job waits for workers, which jobs hold the existing ones.
  void Explain(const std::string& job, absl::Time now, v1::ExplainJobResponse* answer) const;
  /// True if the stream is that of a relay.
  bool IsRelay(uint64_t session) const {
    return cluster_.relays.Knows(cluster_.workers.WorkerOf(session));
  }
  /// The workers that the cluster knows.
  const ClusterWorkers& workers() const { return cluster_.workers; }
  uint64_t epoch() const { return epoch_; }
  /// Lines of waiting jobs and free workers that matching looked at so far: its work, for tests.
  int64_t examined() const { return examined_; }

 private:
  void Match(ClusterEffects& effects);
  /// Ends an event: relays follow the workers of jobs, once in a turn.
  ClusterEffects Done(ClusterEffects effects, bool workers_changed = true);

  const uint64_t epoch_;
  ClusterParts cluster_;
  bool in_turn_ = false;
  bool changed_ = false;  // since BeginTurn
  bool follows_ = false;  // the workers of jobs may have changed since BeginTurn
  int64_t examined_ = 0;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CLUSTER_CLUSTER_CORE_H_
