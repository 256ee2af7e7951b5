#include "controller/api/upload_file_reactor.h"

#include <utility>

#include "boost/asio/post.hpp"
#include "sdk/base/status_macros.h"
#include "sdk/rpc/error.h"

namespace baton::api {

UploadFileReactor::UploadFileReactor(const absl::Status& allowed, controller::Uploads* uploads,
                                     ChooseProject choose, boost::asio::thread_pool* files,
                                     const grpc::CallbackServerContext* context,
                                     v1::UploadFileResponse* response)
    : uploads_(uploads),
      choose_(std::move(choose)),
      files_(files),
      context_(context),
      response_(response) {
  if (!allowed.ok()) {
    Finish(ToGrpc(allowed));
    return;
  }
  StartRead(&request_);
}

UploadFileReactor::~UploadFileReactor() = default;

// Checks by the first message; without any message, by an empty one.
absl::Status UploadFileReactor::Begin() {
  if (file_ != nullptr) return absl::OkStatus();
  const auto project = choose_(request_.project());
  if (!project.ok()) {
    tell_end_ = nullptr;  // the check has reported it already
    return project.status();
  }
  file_ = uploads_->Receive(*project, request_.filename());
  return absl::OkStatus();
}

absl::Status UploadFileReactor::Write() {
  if (request_.ByteSizeLong() > kMaxPieceBytes) {
    return MakeError(
        absl::StatusCode::kResourceExhausted, "MESSAGE_TOO_LARGE",
        absl::StrCat("JobService.UploadFile: a piece has ", request_.ByteSizeLong(),
                     " bytes, of at most ", kMaxPieceBytes, "; send the file in smaller pieces"),
        {{"max_bytes", absl::StrCat(kMaxPieceBytes)}});
  }
  BATON_RETURN_IF_ERROR(Begin());
  return file_->Append(request_.data());
}

absl::Status UploadFileReactor::Keep() {
  // A caller that died has not sent the whole file.
  if (context_->IsCancelled()) return absl::CancelledError("the caller is gone");
  BATON_RETURN_IF_ERROR(Begin());
  BATON_ASSIGN_OR_RETURN(const std::string path, file_->Keep());
  response_->set_path(path);
  response_->set_size_bytes(file_->size_bytes());
  return absl::OkStatus();
}

void UploadFileReactor::OnReadDone(bool ok) {
  boost::asio::post(*files_, [this, ok] {
    const absl::Status status = ok ? Write() : Keep();
    if (!status.ok() || !ok) {
      // The caller may send another file as soon as it hears of the end: what this one had reserved
      // is free before.
      file_ = nullptr;
      if (tell_end_) tell_end_(status, status.ok() ? response_->path() : "");
      return Finish(ToGrpc(status));
    }
    StartRead(&request_);
  });
}

void UploadFileReactor::OnDone() {
  boost::asio::post(*files_, [file = std::move(file_)] {});
  delete this;
}

}  // namespace baton::api
