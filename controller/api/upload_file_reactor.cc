#include "controller/api/upload_file_reactor.h"

#include <algorithm>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "boost/asio/post.hpp"
#include "boost/asio/steady_timer.hpp"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/rpc/error.h"

namespace baton::api {

struct UploadFileReactor::Wait {
  explicit Wait(const boost::asio::thread_pool::executor_type& executor) : timer(executor) {}

  /// Ends the call if it is still this round's piece that it waits for.
  void Expire(int expired_round, absl::Duration limit) {
    UploadFileReactor* reactor = nullptr;
    {
      absl::MutexLock lock(&mu);
      if (round != expired_round) return;
      reactor = std::exchange(waits, nullptr);
      given_up = reactor != nullptr;
    }
    // The reactor lives until its call is finished, and nothing else finishes the call now.
    if (reactor == nullptr) return;
    reactor->End(
        MakeError(absl::StatusCode::kDeadlineExceeded, "UPLOAD_IDLE",
                  absl::StrCat("no piece of the file came within ", absl::FormatDuration(limit),
                               ", or the whole file took too long; upload it again")));
  }

  absl::Mutex mu;
  boost::asio::steady_timer timer ABSL_GUARDED_BY(mu);
  int round ABSL_GUARDED_BY(mu) = 0;
  UploadFileReactor* waits ABSL_GUARDED_BY(mu) = nullptr;  // while it waits for a piece
  bool given_up ABSL_GUARDED_BY(mu) = false;
  absl::Time end ABSL_GUARDED_BY(mu) = absl::InfiniteFuture();  // of the whole call
};

UploadFileReactor::UploadFileReactor(const absl::Status& allowed, controller::Uploads* uploads,
                                     UploadPlaces* places, ChooseProject choose,
                                     boost::asio::thread_pool* files,
                                     const grpc::CallbackServerContext* context,
                                     v1::UploadFileResponse* response)
    : uploads_(uploads),
      places_(places),
      choose_(std::move(choose)),
      files_(files),
      context_(context),
      response_(response),
      wait_(std::make_shared<Wait>(files->get_executor())) {
  if (!allowed.ok()) {
    Finish(ToGrpc(allowed));
    return;
  }
  {
    absl::MutexLock lock(&wait_->mu);
    wait_->end = absl::Now() + places_->limits().longest;
  }
  AwaitPiece();
}

UploadFileReactor::~UploadFileReactor() = default;

void UploadFileReactor::AwaitPiece() {
  const absl::Duration idle = places_->limits().idle;
  {
    absl::MutexLock lock(&wait_->mu);
    const absl::Duration limit = std::min(idle, wait_->end - absl::Now());
    wait_->waits = this;
    wait_->timer.expires_after(absl::ToChronoNanoseconds(limit));
    wait_->timer.async_wait([wait = wait_, idle, round = ++wait_->round](const auto& error) {
      if (!error) wait->Expire(round, idle);
    });
  }
  StartRead(&request_);
}

// On files_.
void UploadFileReactor::End(const absl::Status& status) {
  // The caller may send another file as soon as it hears of the end: what this one had reserved is
  // free before.
  file_ = nullptr;
  open_ = nullptr;
  if (tell_end_) tell_end_(status, status.ok() ? response_->path() : "");
  Finish(ToGrpc(status));
}

// Checks by the first message; without any message, by an empty one.
absl::Status UploadFileReactor::Begin() {
  if (file_ != nullptr) return absl::OkStatus();
  const auto project = choose_(request_.project());
  if (!project.ok()) {
    tell_end_ = nullptr;  // the check has reported it already
    return project.status();
  }
  BATON_ASSIGN_OR_RETURN(open_, places_->Take(*project));
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
  {
    absl::MutexLock lock(&wait_->mu);
    wait_->waits = nullptr;
    wait_->timer.cancel();
    if (wait_->given_up) return;
  }
  boost::asio::post(*files_, [this, ok] {
    const absl::Status status = ok ? Write() : Keep();
    if (!status.ok() || !ok) return End(status);
    AwaitPiece();
  });
}

void UploadFileReactor::OnDone() {
  {
    absl::MutexLock lock(&wait_->mu);
    wait_->waits = nullptr;
    wait_->timer.cancel();
  }
  boost::asio::post(*files_, [file = std::move(file_), open = std::move(open_)] {});
  delete this;
}

}  // namespace baton::api
