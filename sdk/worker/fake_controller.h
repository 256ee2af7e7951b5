// A controller for tests of workers: an in-process gRPC server that behaves as the test says.
#ifndef BATON_SDK_WORKER_FAKE_CONTROLLER_H_
#define BATON_SDK_WORKER_FAKE_CONTROLLER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "baton/v1/experience_service.grpc.pb.h"
#include "baton/v1/worker_service.grpc.pb.h"
#include "grpcpp/server.h"

namespace baton {

/// Serves one worker on a port of 127.0.0.1. Thread-safe. Functions that wait give up after ten
/// seconds and then return an empty value.
class FakeController final {
 public:
  struct Options {
    absl::Duration lease = absl::Seconds(10);
    absl::Duration heartbeat_interval = absl::Milliseconds(50);
    absl::Duration welcome_delay;  ///< Between a Hello and its Welcome.
    uint64_t epoch = 1;
    int32_t protocol = 1;
    bool acknowledge_heartbeats = true;
    bool acknowledge_results = true;
    int port = 0;       ///< 0: any free one.
    std::string token;  ///< Required from workers when not empty.
  };
  explicit FakeController(Options options);
  FakeController() : FakeController(Options()) {}
  ~FakeController();

  std::string address() const;
  int port() const { return port_; }
  /// Takes effect with the next message or stream.
  void Change(const std::function<void(Options&)>& change);
  /// Further fields of the next Welcome; lease and epoch are filled in.
  void SetWelcome(const v1::Welcome& welcome);

  /// The Hello of the worker's `count`th stream (from 1); later messages go to that stream.
  std::optional<v1::Hello> WaitForHello(int count);
  int hello_count() const;
  void Send(const v1::ControllerMessage& message);
  /// Ends the worker's stream with UNAVAILABLE.
  void Drop();

  /// The first message so far for which `wanted` is true.
  std::optional<v1::WorkerMessage> WaitFor(
      const std::function<bool(const v1::WorkerMessage&)>& wanted);
  /// Every message so far, in order of arrival.
  std::vector<v1::WorkerMessage> messages() const;

  /// Sends a task (epoch filled in) and waits for its result.
  std::optional<v1::TaskResult> RunTask(v1::Task task);
  void SendTask(v1::Task task);
  std::optional<v1::TaskResult> WaitForResult(const std::string& token);

  /// The answer of FetchBatch for a batch id. Trajectories with segments have headers.
  void SetBatch(const std::string& batch_id, std::vector<v1::Trajectory> trajectories);
  /// Every FetchBatch so far, in order of arrival.
  std::vector<v1::FetchBatchRequest> fetches() const;
  /// Answers each FetchHistory; none by default.
  using HistoryAnswer = std::function<absl::StatusOr<std::vector<v1::EarlierResponse>>(
      const v1::FetchHistoryRequest&)>;
  void SetHistory(HistoryAnswer answer);
  /// Every FetchHistory so far, in order of arrival.
  std::vector<v1::FetchHistoryRequest> history_fetches() const;

 private:
  class Workers;
  class Experience;

  mutable absl::Mutex mu_;
  Options options_ ABSL_GUARDED_BY(mu_);
  v1::Welcome welcome_ ABSL_GUARDED_BY(mu_);
  std::vector<v1::Hello> hellos_ ABSL_GUARDED_BY(mu_);
  std::vector<v1::WorkerMessage> messages_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, std::vector<v1::Trajectory>> batches_ ABSL_GUARDED_BY(mu_);
  std::vector<v1::FetchBatchRequest> fetches_ ABSL_GUARDED_BY(mu_);
  HistoryAnswer history_ ABSL_GUARDED_BY(mu_);
  std::vector<v1::FetchHistoryRequest> history_fetches_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<Workers> workers_;
  std::unique_ptr<Experience> experience_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace baton

#endif  // BATON_SDK_WORKER_FAKE_CONTROLLER_H_
