// Interfaces for answers to the controller's calls: one answer, or a stream of lines.
#ifndef BATON_CONTROLLER_RUNTIME_CALLS_CALLS_H_
#define BATON_CONTROLLER_RUNTIME_CALLS_CALLS_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "baton/v1/job_service.pb.h"
#include "baton/v1/worker_service.pb.h"

namespace baton::controller {

template <typename T>
using Callback = std::function<void(absl::StatusOr<T>)>;
/// Answers true once the caller has hung up or its deadline has passed. Cheap, takes no lock, may
/// be called from any thread at any time. Null: the caller never leaves.
using CallerGone = std::function<bool()>;

/// The controller's end of one worker's stream. Implemented by the gRPC reactor (and by fakes).
/// Thread-safe; neither method blocks. Nothing is sent after Close.
class WorkerStream {
 public:
  virtual ~WorkerStream() = default;
  virtual void Send(v1::ControllerMessage message) = 0;
  /// Ends the stream with `status`. May be called twice.
  virtual void Close(absl::Status status) = 0;
  /// The worker may get jobs of this project only, and may report only on them; "*": all projects.
  /// Constant.
  virtual std::string project() const { return "*"; }
};

/// The stream's owner reports to the controller here. Messages are handled in call order.
class WorkerSession {
 public:
  virtual ~WorkerSession() = default;
  virtual void OnMessage(v1::WorkerMessage message) = 0;
  /// The stream has ended (peer, network or Close). Called once, as the last call.
  virtual void OnClosed() = 0;
};

/// Receives a job's events. Methods are called in order, never at the same time.
class EventSink {
 public:
  virtual ~EventSink() = default;
  /// False: the receiver is too slow. The subscription then ends with RESOURCE_EXHAUSTED
  /// (WATCH_TOO_SLOW), and its user resumes from the last revision that it got.
  virtual bool OnEvent(const v1::JobEvent& event) = 0;
  /// No more events: OK when the job has ended.
  virtual void OnEnd(absl::Status status) = 0;
};

/// Receives a job's log lines, in the same way.
class LogSink {
 public:
  virtual ~LogSink() = default;
  virtual bool OnEntry(const v1::LogEntry& entry) = 0;
  virtual void OnEnd(absl::Status status) = 0;
};

/// Ends a subscription when it is destroyed. The sink may still be called once meanwhile, so sinks
/// are shared.
class Subscription {
 public:
  virtual ~Subscription() = default;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_CALLS_CALLS_H_
