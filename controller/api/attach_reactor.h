// The reactor of one worker's stream.
//
// Two objects with two lifetimes: the reactor lives until gRPC is done, the stream until the
// controller releases it. The stream's lock guards its pointer to the reactor.
#ifndef BATON_CONTROLLER_API_ATTACH_REACTOR_H_
#define BATON_CONTROLLER_API_ATTACH_REACTOR_H_

#include <deque>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "baton/v1/worker_service.pb.h"
#include "controller/api/access.h"
#include "controller/runtime/controller/controller_interface.h"
#include "grpcpp/support/server_callback.h"

namespace baton::api {

/// Deletes itself. At most one read and one write run at a time.
class AttachReactor : public grpc::ServerBidiReactor<v1::WorkerMessage, v1::ControllerMessage> {
 public:
  /// `granted`: an error ends the stream at once. Otherwise it says whose jobs the worker may get
  /// while its token is valid.
  AttachReactor(const absl::StatusOr<Granted>& granted, const Access& access,
                grpc::CallbackServerContext* context, controller::ControllerInterface* controller);
  ~AttachReactor() override;

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  /// Bytes of messages that may wait for a worker that does not read (one message always may).
  /// Above this, the worker is cut off; it attaches again and gets what it missed.
  static constexpr size_t kCapacityBytes = 64u << 20;

 private:
  class Stream;
  std::shared_ptr<Stream> stream_;
  std::unique_ptr<controller::WorkerSession> session_;
  OpenStreams::Place place_;
  v1::WorkerMessage incoming_;
};

}  // namespace baton::api

#endif  // BATON_CONTROLLER_API_ATTACH_REACTOR_H_
