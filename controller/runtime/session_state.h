// A worker's stream in the controller. Private to controller/runtime.
#ifndef BATON_CONTROLLER_RUNTIME_SESSION_STATE_H_
#define BATON_CONTROLLER_RUNTIME_SESSION_STATE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "controller/runtime/controller.h"

namespace baton::controller {

/// Holds back the messages of a worker until its Welcome, so that its job learns of the worker's
/// return before it gets the worker's results.
struct Controller::SessionState {
  uint64_t id = 0;
  std::shared_ptr<WorkerStream> stream;
  absl::Time hello_by;  ///< A stream without a Hello is closed at this time.
  absl::Mutex mu;
  std::string worker ABSL_GUARDED_BY(mu);  ///< Empty before Hello.
  bool welcome ABSL_GUARDED_BY(mu) = false;
  std::vector<v1::WorkerMessage> held ABSL_GUARDED_BY(mu);
};

class Controller::Session : public WorkerSession {
 public:
  Session(Controller* controller, std::shared_ptr<SessionState> state)
      : controller_(controller), state_(std::move(state)) {}

  void OnMessage(v1::WorkerMessage message) override;
  void OnClosed() override;

  /// Passes one message of a welcomed worker to its job or to the cluster.
  static void Route(Controller* controller, const std::shared_ptr<SessionState>& state,
                    const std::string& worker, v1::WorkerMessage message);

 private:
  /// The job of the token; null: no such job, or the worker may not report on it.
  static std::shared_ptr<JobRuntime> JobFor(Controller* controller, const SessionState& state,
                                            const TaskToken& token);
  void OnHello(const v1::Hello& hello);

  Controller* const controller_;
  const std::shared_ptr<SessionState> state_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_SESSION_STATE_H_
