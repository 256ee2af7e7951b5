// The reactor of one file's upload, which is stored among the uploads of a project.
#ifndef BATON_CONTROLLER_API_UPLOAD_FILE_REACTOR_H_
#define BATON_CONTROLLER_API_UPLOAD_FILE_REACTOR_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "baton/v1/job_service.pb.h"
#include "boost/asio/thread_pool.hpp"
#include "controller/api/upload_places.h"
#include "controller/runtime/files/uploads.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"

namespace baton::api {

/// The file is opened, written and discarded on `files`, one piece at a time. The next piece is
/// read when the last is written, so a slow disk slows the sender down. A sender whose next piece
/// does not come in time loses the call: DEADLINE_EXCEEDED (UPLOAD_IDLE). Deletes itself.
class UploadFileReactor : public grpc::ServerReadReactor<v1::UploadFileRequest> {
 public:
  /// The project that the first message names (it may be empty), or why the caller may not upload
  /// there. Called once, on `files`.
  using ChooseProject = std::function<absl::StatusOr<std::string>(const std::string& said)>;

  /// `allowed`: an error ends the call at once; then the other arguments are not used. `places`
  /// outlives this.
  UploadFileReactor(const absl::Status& allowed, controller::Uploads* uploads, UploadPlaces* places,
                    ChooseProject choose, boost::asio::thread_pool* files,
                    const grpc::CallbackServerContext* context, v1::UploadFileResponse* response);
  ~UploadFileReactor() override;

  /// Called once with the call's outcome and the path of the file. Set it before gRPC gets this
  /// object.
  void TellEnd(std::function<void(const absl::Status&, const std::string& path)> tell) {
    tell_end_ = std::move(tell);
  }
  /// Kept as long as the call lives. Set it before gRPC gets this object.
  void Keep(std::shared_ptr<const void> place) { place_ = std::move(place); }

  void OnReadDone(bool ok) override;
  void OnDone() override;

  /// Limit for one message; clients send 1 MiB.
  static constexpr size_t kMaxPieceBytes = 4 << 20;

 private:
  // The wait for the next piece. Its timer may outlive the reactor.
  struct Wait;

  void AwaitPiece();
  void End(const absl::Status& status);
  absl::Status Begin();
  absl::Status Write();
  absl::Status Keep();

  controller::Uploads* const uploads_;
  UploadPlaces* const places_;
  const ChooseProject choose_;
  boost::asio::thread_pool* const files_;
  const grpc::CallbackServerContext* const context_;
  v1::UploadFileResponse* const response_;
  v1::UploadFileRequest request_;
  const std::shared_ptr<Wait> wait_;
  std::shared_ptr<const void> place_;
  UploadPlaces::Place open_;  // from the first piece on; touched only on files_
  std::function<void(const absl::Status&, const std::string&)> tell_end_;  // null: no listener
  std::unique_ptr<controller::Uploads::Incoming> file_;                    // touched only on files_
};

}  // namespace baton::api

#endif  // BATON_CONTROLLER_API_UPLOAD_FILE_REACTOR_H_
