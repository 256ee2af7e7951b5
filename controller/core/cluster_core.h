// Workers, leases and the queue: which job gets which workers.
//
// Pure. A worker is granted to one job at a time, for one seat: a role, or several that share it,
// which are named together, joined by "+". Jobs are served by priority,
// then by order of submission; a job that starts gets everything it asked for at once or
// nothing, so two half-started jobs never wait for each other, and a job that does not fit
// leaves what is free to those behind it. A running job that lost a worker is served before any
// job that has not started.
//
// A worker's lease is renewed by its heartbeats. When its stream breaks, the job keeps it until
// the lease ends: the same process may come back. After a controller restart, the workers that
// jobs held are expected for one lease.
//
// A job that cannot go on for want of a seat that no free worker plays is not left to a person
// where its own workers could change their seats (reseat.h). Of two jobs that cannot go on, each
// for want of a worker that the other one holds, the later one gives its workers back and waits in
// the queue again.
//
// Among jobs of equal priority that wait alike, the one goes first whose project holds the fewest
// workers for its weight; a project with a limit never holds more.
#ifndef BATON_CONTROLLER_CORE_CLUSTER_CORE_H_
#define BATON_CONTROLLER_CORE_CLUSTER_CORE_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "baton/v1/access_service.pb.h"
#include "baton/v1/cluster_service.pb.h"
#include "baton/v1/job_service.pb.h"
#include "baton/v1/worker_service.pb.h"
#include "controller/core/need_queue.h"
#include "controller/core/reseat.h"
#include "controller/core/role_needs.h"
#include "controller/core/worker_exchange.h"

namespace baton::controller {

struct ClusterOptions {
  absl::Duration lease = absl::Seconds(10);
  absl::Duration heartbeat_interval = absl::Seconds(2);
  int protocol_min = 1;  ///< Protocol versions this controller speaks.
  int protocol_max = 1;
  int max_silences = 3;  ///< Deadlines that a worker may let pass before it is drained.
  /// A job that cannot go on without a seat that no free worker plays waits so long before its own
  /// workers change their seats for it.
  absl::Duration reseat_after = absl::Seconds(20);
  /// A job that cannot go on waits so long before another one that cannot go on either gives it its
  /// workers.
  absl::Duration yield_after = absl::Seconds(60);
  /// Options of `baton up` -> how many workers it started by them, where it started this
  /// controller: advice then names these options. Empty: it did not.
  std::map<std::string, int> up_workers;
};

// ---- Effects of the cluster ---------------------------------------------------------------

struct ClusterWelcome {  ///< Answer Hello on this stream.
  uint64_t session = 0;
  std::string worker;
  int protocol = 1;
  std::vector<v1::RoleHeld> release;  ///< Roles no job wants any more.
};
struct ClusterRefuse {  ///< End this stream.
  uint64_t session = 0;
  std::string reason;  ///< ErrorInfo reason.
  absl::Status status;
};
struct ClusterGrant {
  std::string job, worker;
  std::string roles;                   ///< Joined by "+".
  std::map<std::string, int> credits;  ///< By role.
};
struct ClusterLost {
  std::string job, worker, reason;
  bool moves = false;  ///< It lives and is granted another seat of the job next.
};
struct ClusterBack {
  std::string job, worker;
  v1::Hello hello;
};
struct ClusterYield {  ///< The job gives all its workers back, and asks for them anew.
  std::string job, reason;
};
using ClusterEffect = std::variant<ClusterWelcome, ClusterRefuse, ClusterGrant, ClusterLost,
                                   ClusterBack, ClusterYield>;
using ClusterEffects = std::vector<ClusterEffect>;

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

  /// What a job still lacks, roles of a seat -> count; replaces what it asked before. `active` jobs
  /// have started already. `needs`: what a worker must offer in each role; a role that it does not
  /// name is open to every worker that has a method of the role.
  ClusterEffects OnNeed(const std::string& job, int priority, int64_t order, bool active,
                        const std::map<std::string, int>& missing, absl::Time now,
                        const SeatHints& hints = {}, const RoleNeeds& needs = {});
  /// A job gives a worker back. Others are granted before a silent one; after `max_silences` in a
  /// row, or when it is slow, it gets no work until its process is restarted.
  ClusterEffects OnReturn(const std::string& job, const std::string& worker, absl::Time now,
                          Conduct conduct = Conduct::kGood);
  /// A job asks for nothing any more.
  void OnLeave(const std::string& job);
  /// A restarted controller: `job` held this worker, which has one lease to come back.
  void Expect(const std::string& job, const std::string& worker, const std::string& roles,
              absl::Time now);
  /// An operator drains a worker: it stays so, whatever becomes of its lease and its process, until
  /// OnUndrain. NotFound for an unknown worker.
  absl::StatusOr<ClusterEffects> OnDrain(const std::string& worker, absl::Time now);
  /// Takes any drain back. NotFound for an unknown worker.
  absl::StatusOr<ClusterEffects> OnUndrain(const std::string& worker);
  /// A restarted controller: an operator drained it, whether it attaches or not.
  void KeepDrained(const std::string& worker, const std::string& reason);
  bool Knows(const std::string& worker) const { return workers_.count(worker) > 0; }

  /// A project's weight and its limit of workers count from the next turn on.
  void SetProject(const v1::Project& project) { projects_[project.project()] = project; }
  /// Adds what the cluster knows of a job's waits: first its workers that have been silent for
  /// two heartbeats; and of the wait for workers, who has those that there are.
  void Explain(const std::string& job, absl::Time now, v1::ExplainJobResponse* answer) const;
  /// Workers whose ids come after `after`, by id, at most `most`.
  std::vector<v1::Worker> List(absl::Time now, const std::string& after = "",
                               size_t most = SIZE_MAX) const;
  /// The stream of an attached worker; 0: it has none.
  uint64_t SessionOf(const std::string& worker) const;
  std::string WorkerOf(uint64_t session) const;
  std::string JobOf(const std::string& worker) const;
  /// An attached worker that serves role and method for jobs of `project`, by id; "": none.
  std::string FindMethod(const std::string& role, const std::string& method,
                         const std::string& project) const;
  uint64_t epoch() const { return epoch_; }
  /// Lines of waiting jobs and free workers that matching looked at so far: its work, for tests.
  int64_t examined() const { return examined_; }

 private:
  struct Worker {
    v1::Hello hello;
    uint64_t session = 0;  // 0: not attached
    absl::Time lease_end;
    absl::Time seen;
    bool draining = false;
    bool kept_drained = false;  // by an operator
    std::string drain_reason;
    int silences = 0;           // deadlines it let pass
    std::string job;            // empty: free
    std::string roles;          // granted, joined by "+"
    std::string project = "*";  // the only one whose jobs it gets; "*": all
  };
  struct Supply;  // cluster_core_match.cc
  struct Place;
  /// The moves that would fill a blocking seat of an active job; none: no seat, or no way.
  std::vector<SeatedWorker> ChainFor(const std::string& job, const WorkerNeed& need,
                                     std::string* seat) const;
  void Reseat(absl::Time now, ClusterEffects& effects);
  /// Jobs behind it that cannot go on either, the last first: with their workers this one could,
  /// and with none fewer of them; empty: not even so.
  std::vector<std::string> WhoYieldsTo(const std::string& job) const;
  /// Whether `workers` could take all seats without which the job cannot go on.
  bool CouldFill(const std::string& job, const WorkerNeed& need,
                 const std::vector<std::string>& workers) const;
  void Yield(absl::Time now, ClusterEffects& effects);
  void Move(const std::string& job, const WorkerNeed& need, const std::string& seat,
            const std::vector<SeatedWorker>& chain, ClusterEffects& effects);
  void Match(ClusterEffects& effects);
  Supply CountSupply() const;
  int RoomOf(const std::string& project, const Supply& supply) const;
  double ShareOf(const std::string& project, const Supply& supply) const;
  bool HasRoom(const std::string& project) const;  // for another worker
  int FreeWith(const std::string& project, const NeedQueue::Line& line, const std::string& roles,
               Supply& supply);
  bool MayServe(const std::string& project, const NeedQueue::Line& line, int room, Supply& supply);
  std::vector<Place> Places(Supply& supply);
  bool Serve(const std::string& job, Supply& supply, ClusterEffects& effects);
  int HeldBy(const std::string& project) const;
  void Lose(const std::string& id, const std::string& reason, ClusterEffects& effects);
  struct Attendance;  // cluster_core_explain.cc
  Attendance Attending(const std::string& roles, const std::string& job,
                       const RoleNeeds& needs) const;
  std::string Remedy(const std::vector<Attendance>& lacking,
                     const std::map<std::string, int>& wanted) const;
  void ExplainWorkers(const std::string& job, const WorkerNeed& need, absl::Time now,
                      v1::Wait* wait) const;
  static void Drain(Worker& worker, const std::string& reason);
  void Forget(const std::string& id);
  /// Of the seat whose roles the worker has been given.
  static ClusterGrant GrantOf(const std::string& job, const std::string& id, const Worker& worker,
                              const RoleNeeds& needs);
  static int CreditsOf(const Worker& worker, const std::string& role, const RoleNeeds& needs);
  static bool PlaysAll(const Worker& worker, const std::vector<std::string>& roles);
  static bool MayWorkFor(const Worker& worker, const std::string& project);
  /// The first thing that it does not offer for a seat of `roles`, and in which role.
  static std::pair<std::string, MissingOffer> Missing(const Worker& worker,
                                                      const std::vector<std::string>& roles,
                                                      const RoleNeeds& needs);
  /// It may be granted a seat of `roles` to a job of `project`.
  static bool Fits(const Worker& worker, const std::string& project,
                   const std::vector<std::string>& roles, const RoleNeeds& needs);

  const uint64_t epoch_;
  const ClusterOptions options_;
  std::map<std::string, Worker> workers_;
  std::map<uint64_t, std::string> sessions_;
  NeedQueue needs_;
  std::map<std::string, v1::Project> projects_;  // that were set
  bool in_turn_ = false;
  bool changed_ = false;  // since BeginTurn
  int64_t examined_ = 0;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_CLUSTER_CORE_H_
