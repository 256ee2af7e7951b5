// The workers of the cluster: streams, leases, drains, and which job each was granted to.
//
// Pure. Owns every worker that is attached, granted or drained, and the sessions: the numbers of
// the streams. A worker is known by its name: the id that it says, and the project whose token it
// has (WorkerName). So each project has ids of its own, and a worker never takes the place of
// another project's worker. A worker's lease is renewed by its heartbeats. When its stream breaks,
// its job keeps it until the lease ends: the same process may come back. match_workers.h and
// stuck_jobs.h decide which job gets a worker.
#ifndef BATON_CONTROLLER_CLUSTER_CLUSTER_WORKERS_H_
#define BATON_CONTROLLER_CLUSTER_CLUSTER_WORKERS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "baton/v1/cluster_service.pb.h"
#include "baton/v1/worker_service.pb.h"
#include "controller/cluster/cluster_effects.h"
#include "controller/cluster/cluster_options.h"
#include "controller/cluster/worker_exchange.h"
#include "controller/spec/dataflow/role_needs.h"

namespace baton::controller {

/// The name of a worker, for the controller and for people: its id, or "{project}/{id}" for a
/// worker that works for one project alone. An id has no "/", so a name belongs to one worker.
std::string WorkerName(const std::string& project, const std::string& id);

struct ClusterWorker {
  v1::Hello hello;
  uint64_t session = 0;  ///< 0: not attached.
  absl::Time lease_end;
  absl::Time seen;
  bool draining = false;
  bool kept_drained = false;  ///< By an operator.
  std::string drain_reason;
  /// Drained because it did not leave its last role; until it has left, or has another process.
  bool stuck = false;
  std::string left;           ///< The last job whose role it said it has left.
  int silences = 0;           ///< Deadlines it let pass, one after the other.
  std::string job;            ///< Empty: free.
  std::string roles;          ///< Granted, joined by "+".
  std::string project = "*";  ///< Its token's project, the only one whose jobs it gets; "*": all.

  /// True if the worker could be granted now.
  bool free() const { return session != 0 && !draining && job.empty(); }
};

bool PlaysAll(const ClusterWorker& worker, const std::vector<std::string>& roles);
bool MayWorkFor(const ClusterWorker& worker, const std::string& project);
/// The first thing that the worker does not offer for a worker slot of `roles`, and in which role.
std::pair<std::string, MissingSupport> MissingIn(const ClusterWorker& worker,
                                                 const std::vector<std::string>& roles,
                                                 const RoleNeeds& needs);
/// True if the worker may be granted to a job of `project` for a worker slot of `roles`.
bool Fits(const ClusterWorker& worker, const std::string& project,
          const std::vector<std::string>& roles, const RoleNeeds& needs);

/// Not thread-safe.
class ClusterWorkers {
 public:
  /// `options` must outlive it.
  ClusterWorkers(uint64_t epoch, const ClusterOptions* options)
      : epoch_(epoch), options_(*options) {}

  // ---- Streams and leases. ClusterCore's events of the same names say more.
  /// False: the stream is refused, and nothing has changed.
  bool OnHello(uint64_t session, const v1::Hello& hello, absl::Time now, const std::string& project,
               ClusterEffects& effects);
  void OnClosed(uint64_t session);
  void OnHeartbeats(uint64_t session, absl::Time at);
  /// Jobs lose the workers whose leases have ended by now.
  void EndLeases(absl::Time now, ClusterEffects& effects);

  // ---- Worker slots. `id` is a worker's name from here on.
  /// Grants a known worker to the job for a worker slot of `roles`. It silently loses one that it
  /// has.
  void Grant(const std::string& id, const std::string& job, const std::string& roles,
             const RoleNeeds& needs, ClusterEffects& effects);
  /// Nothing happens where `job` does not have it.
  void OnReturn(const std::string& job, const std::string& id, ReturnReason return_reason);
  /// The worker says that it has left a role of `job`. True: it may be granted again.
  bool OnReleased(const std::string& id, const std::string& job);
  void Expect(const std::string& job, const std::string& id, const std::string& roles,
              absl::Time now);

  // ---- Drains.
  absl::Status OnDrain(const std::string& id, ClusterEffects& effects);
  absl::Status OnUndrain(const std::string& id);
  void KeepDrained(const std::string& id, const std::string& reason);

  // ---- Queries.
  /// By name.
  const std::map<std::string, ClusterWorker>& all() const { return workers_; }
  bool Knows(const std::string& id) const { return workers_.count(id) > 0; }
  /// The error for an unknown name; it suggests names that may be meant.
  absl::Status Unknown(const std::string& id) const;
  /// Workers whose names come after `after`, by name, at most `most`.
  std::vector<v1::Worker> List(absl::Time now, const std::string& after = "",
                               size_t most = SIZE_MAX) const;
  /// The stream of an attached worker; 0: it has none.
  uint64_t SessionOf(const std::string& id) const;
  std::string WorkerOf(uint64_t session) const;
  std::string JobOf(const std::string& id) const;
  /// An attached worker that serves role and method for jobs of `project`, by id; "": none.
  std::string FindMethod(const std::string& role, const std::string& method,
                         const std::string& project) const;
  /// The number of workers that the jobs of a project hold.
  int HeldBy(const std::string& project) const;

 private:
  /// The worker's job, if it has one, goes on without it.
  void Lose(const std::string& id, const std::string& reason, ClusterEffects& effects);
  void Forget(const std::string& id);

  const uint64_t epoch_;
  const ClusterOptions& options_;
  std::map<std::string, ClusterWorker> workers_;
  std::map<uint64_t, std::string> sessions_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CLUSTER_CLUSTER_WORKERS_H_
