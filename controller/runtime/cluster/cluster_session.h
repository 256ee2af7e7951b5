// A worker's stream in the controller. Private to ClusterRuntime.
#ifndef BATON_CONTROLLER_RUNTIME_CLUSTER_CLUSTER_SESSION_H_
#define BATON_CONTROLLER_RUNTIME_CLUSTER_CLUSTER_SESSION_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "controller/runtime/cluster/cluster_runtime.h"

namespace baton::controller {

/// Holds back the messages of a worker until its Welcome, so that its job learns of the worker's
/// return before it gets the worker's results.
struct ClusterRuntime::SessionState {
  uint64_t id = 0;
  std::shared_ptr<WorkerStream> stream;
  absl::Time hello_by;  ///< A stream without a Hello is closed at this time.
  absl::Mutex mu;
  /// Empty before Hello; its name (controller/cluster/cluster_workers.h) from Welcome on.
  std::string worker ABSL_GUARDED_BY(mu);
  bool welcome ABSL_GUARDED_BY(mu) = false;
  std::vector<v1::WorkerMessage> held ABSL_GUARDED_BY(mu);
  size_t held_bytes ABSL_GUARDED_BY(mu) = 0;

  /// A worker of one project may not report on jobs of another.
  bool MayReportOn(const JobRuntime& job) const;
};

class ClusterRuntime::Session : public WorkerSession {
 public:
  Session(ClusterRuntime* cluster, std::shared_ptr<SessionState> state)
      : cluster_(cluster), state_(std::move(state)) {}

  void OnMessage(v1::WorkerMessage message) override;
  void OnClosed() override;

  /// Passes one message of a welcomed worker to its job or to the cluster.
  static void Route(ClusterRuntime* cluster, const SessionState& state, const std::string& worker,
                    v1::WorkerMessage message);

 private:
  /// The job of the token or of the name; null: no such job, or the worker may not report on it.
  static std::shared_ptr<JobRuntime> JobFor(const ClusterRuntime& cluster,
                                            const SessionState& state,
                                            const std::optional<TaskToken>& token);
  static std::shared_ptr<JobRuntime> JobFor(const ClusterRuntime& cluster,
                                            const SessionState& state, const std::string& name);
  void OnHello(const v1::Hello& hello);
  /// Keeps a message until Welcome; too many of them end the stream.
  void Hold(v1::WorkerMessage message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu);

  ClusterRuntime* const cluster_;
  const std::shared_ptr<SessionState> state_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_CLUSTER_CLUSTER_SESSION_H_
