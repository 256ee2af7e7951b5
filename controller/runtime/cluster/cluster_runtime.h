// The runtime of the cluster's core: workers' sessions, the queue of jobs, drains and exports.
//
// Turns messages of workers and needs of jobs into events of ClusterCore, and the core's effects
// into messages to workers and events of jobs.
//
// All access to the outside goes through ports (controller/ports) and WorkerStream. In production
// they are a thread, SQLite and gRPC; in the simulator they are fakes in virtual time. Both run
// this class.
//
// Threads: public methods may be called from any thread, unless they say otherwise; they post to
// the strand. Messages of a session pass to their job on the thread that calls the session.
#ifndef BATON_CONTROLLER_RUNTIME_CLUSTER_CLUSTER_RUNTIME_H_
#define BATON_CONTROLLER_RUNTIME_CLUSTER_CLUSTER_RUNTIME_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "controller/cluster/cluster_core.h"
#include "controller/ports/executor.h"
#include "controller/ports/worker_queue.h"
#include "controller/runtime/calls/calls.h"
#include "controller/runtime/cluster/checkpoint_exports.h"
#include "controller/runtime/cluster/job_table.h"
#include "controller/runtime/cluster/lease_table.h"
#include "controller/runtime/cluster/worker_directory.h"
#include "controller/runtime/job/job_runtime.h"

namespace baton::controller {

class ClusterRuntime : public WorkerQueue {
 public:
  /// `context` and `jobs` outlive this. Of the context this uses clock, store, observer and epoch.
  ClusterRuntime(const RuntimeContext* context, const ClusterOptions& options,
                 std::unique_ptr<Executor> strand, const JobTable* jobs);

  // Before anything is posted.
  /// Reads the drains of operators. DATA_LOSS: a row is damaged. Blocks on the store.
  absl::Status ReadDrains(store::Store& store);
  /// Gives the workers that an active restored job held one lease to come back.
  void Expect(const JobRuntime& job);

  /// The streams of attached workers, and the workers' offers.
  WorkerDirectory& directory() { return directory_; }
  std::unique_ptr<WorkerSession> Attach(std::shared_ptr<WorkerStream> stream);
  void Need(const std::string& job, const NeedWorkers& need) override;
  void Return(const std::string& job, const ReturnWorker& worker) override;
  void Publishes(const std::string& job, const std::string& worker) override;
  void Leave(const std::string& job) override;
  void Quarantine(const std::string& job) override;
  /// An operator drains a worker, or undoes the drain. A drain is a row, so that it survives the
  /// end of the lease, of the worker's process and of this controller. NOT_FOUND
  /// (WORKER_NOT_FOUND). Answers with the worker afterwards.
  void Drain(const std::string& worker, Callback<v1::Worker> done);
  void Undrain(const std::string& worker, Callback<v1::Worker> done);
  /// Asks a worker to write a checkpoint of the job to `pending.directory`.
  void Export(const std::string& job, const std::string& checkpoint, PendingExport pending);
  /// Runs `work` on the strand. All work that waits there forms one turn; workers are matched to
  /// jobs once, at its end.
  void Post(std::function<void()> work);

  // On the strand.
  ClusterCore& core() { return core_; }
  /// The time when the work in progress began. Every earlier heartbeat is already counted.
  absl::Time now() const { return now_; }
  void Apply(const ClusterEffects& effects);
  /// Time passes, for the cluster and for every active job.
  void Tick();

 private:
  class Session;
  struct SessionState;

  void Do(const ClusterWelcome& welcome);
  void Do(const ClusterRefuse& refuse);
  void Do(const ClusterGrant& grant);
  void Do(const ClusterLost& lost);
  void Do(const ClusterYield& yield);
  void Do(const ClusterReconnected& back);
  void Do(const ClusterRelays& relays);
  void Do(const ClusterRelayOrders& orders);
  void OnRelayReport(uint64_t session, const v1::RelayReport& report);
  void TakeBack(const std::string& job, const std::string& worker);
  void PassHeld(SessionState& session, const std::string& worker);
  void CloseSilentStreams();

  void SetDrained(const std::string& worker, const std::string& reason, Callback<v1::Worker> done);
  v1::Worker WorkerNamed(const std::string& worker) const;

  // Constant after construction, or with synchronisation of their own.
  const RuntimeContext* const context_;
  const ClusterOptions options_;
  const JobTable* const jobs_;
  const std::unique_ptr<Executor> strand_;
  WorkerDirectory directory_;
  LeaseTable leases_;
  std::atomic<uint64_t> next_session_{1};

  // On the strand.
  ClusterCore core_;
  std::map<uint64_t, std::shared_ptr<SessionState>> sessions_;
  CheckpointExports exports_;
  bool in_turn_ = false;
  absl::Time now_ = absl::InfinitePast();
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_CLUSTER_CLUSTER_RUNTIME_H_
