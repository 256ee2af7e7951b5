#include "sdk/worker/experience_client.h"

#include <memory>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "baton/v1/experience_service.grpc.pb.h"
#include "grpcpp/client_context.h"
#include "sdk/common/base/log.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/rpc/channel.h"
#include "sdk/common/rpc/channel_credentials.h"
#include "sdk/common/rpc/error.h"

namespace baton {
namespace {

constexpr absl::Duration kRetryDelay = absl::Milliseconds(200);

absl::StatusOr<std::shared_ptr<grpc::Channel>> Connect(const std::string& controller,
                                                       const TlsFiles& tls) {
  BATON_ASSIGN_OR_RETURN(const auto credentials, MakeChannelCredentials(tls));
  ChannelOptions how;
  how.own_connection = true;
  return MakeChannel(controller, credentials, how);
}

void SignWith(const std::string& token, grpc::ClientContext& context) {
  if (!token.empty()) context.AddMetadata("authorization", absl::StrCat("Bearer ", token));
}

}  // namespace

bool CallCanceller::Begin(grpc::ClientContext* context) {
  absl::MutexLock lock(&mu_);
  context_ = context;
  return !cancelled_;
}

void CallCanceller::End() {
  absl::MutexLock lock(&mu_);
  context_ = nullptr;
}

void CallCanceller::Cancel() {
  absl::MutexLock lock(&mu_);
  cancelled_ = true;
  if (context_ != nullptr) context_->TryCancel();
}

void CallCanceller::Pause(absl::Duration duration) {
  absl::MutexLock lock(&mu_);
  mu_.AwaitWithTimeout(absl::Condition(&cancelled_), duration);
}

ExperienceClient::ExperienceClient(const WorkerOptions& options)
    : controller_(options.controller), token_(options.token), tls_(options.tls) {}

absl::StatusOr<ExperienceClient::Channel> ExperienceClient::Connection() const {
  absl::MutexLock lock(&mu_);
  if (channel_ == nullptr) {
    BATON_ASSIGN_OR_RETURN(channel_, Connect(controller_, tls_));
  }
  return channel_;
}

absl::Status ExperienceClient::Ended(const Channel& channel, absl::Status status) const {
  if (status.ok()) return status;
  absl::MutexLock lock(&mu_);
  if (channel_ == channel) channel_ = nullptr;
  return status;
}

absl::Status ExperienceClient::FetchOnce(const v1::FetchBatchRequest& request, CallCanceller& call,
                                         std::vector<v1::Trajectory>& batch) const {
  BATON_ASSIGN_OR_RETURN(const Channel channel, Connection());
  const auto stub = v1::ExperienceService::NewStub(channel);
  grpc::ClientContext context;
  SignWith(token_, context);
  const absl::Cleanup end = [&call] { call.End(); };
  if (!call.Begin(&context)) return absl::CancelledError("update was cancelled");
  const auto reader = stub->FetchBatch(&context, request);
  v1::FetchBatchResponse response;
  while (reader->Read(&response)) {
    for (v1::Trajectory& one : *response.mutable_trajectories()) batch.push_back(std::move(one));
  }
  return Ended(channel, FromGrpc(reader->Finish()));
}

absl::StatusOr<std::vector<v1::EarlierResponse>> ExperienceClient::FetchHistory(
    const v1::FetchHistoryRequest& request, absl::Duration limit, CallCanceller& canceller) const {
  BATON_ASSIGN_OR_RETURN(const Channel channel, Connection());
  const auto stub = v1::ExperienceService::NewStub(channel);
  grpc::ClientContext context;
  SignWith(token_, context);
  context.set_deadline(absl::ToChronoTime(absl::Now() + limit));
  const absl::Cleanup end = [&canceller] { canceller.End(); };
  if (!canceller.Begin(&context)) return absl::CancelledError("the history is not wanted any more");
  const auto reader = stub->FetchHistory(&context, request);
  std::vector<v1::EarlierResponse> history;
  v1::FetchHistoryResponse response;
  while (reader->Read(&response)) {
    for (v1::EarlierResponse& one : *response.mutable_responses()) {
      history.push_back(std::move(one));
    }
  }
  BATON_RETURN_IF_ERROR(Ended(channel, FromGrpc(reader->Finish())));
  return history;
}

absl::StatusOr<std::vector<v1::Trajectory>> ExperienceClient::FetchBatch(
    TaskContext& context) const {
  return Fetch({}, context);
}

absl::StatusOr<std::vector<v1::Trajectory>> ExperienceClient::FetchHeaders(
    TaskContext& context) const {
  v1::FetchBatchRequest request;
  request.set_view(v1::FetchBatchRequest::VIEW_HEADERS);
  return Fetch(std::move(request), context);
}

absl::StatusOr<std::vector<v1::Trajectory>> ExperienceClient::FetchRows(
    TaskContext& context, absl::Span<const int64_t> rows) const {
  if (rows.empty()) return std::vector<v1::Trajectory>();  // no rows named are all rows
  v1::FetchBatchRequest request;
  for (int64_t row : rows) request.add_rows(static_cast<int32_t>(row));
  BATON_ASSIGN_OR_RETURN(auto fetched, Fetch(std::move(request), context));
  if (fetched.size() == rows.size()) return fetched;
  return absl::DataLossError(absl::StrCat(
      "the controller sent ", fetched.size(), " trajectories of batch ",
      context.task().update().batch_id(), " instead of the ", rows.size(), " that were asked for"));
}

absl::StatusOr<std::vector<v1::Trajectory>> ExperienceClient::Fetch(v1::FetchBatchRequest request,
                                                                    TaskContext& context) const {
  const v1::Update& update = context.task().update();
  request.set_job(context.task().job());
  request.set_batch_id(update.batch_id());
  request.set_capability(update.capability());
  const auto call = std::make_shared<CallCanceller>();
  context.OnCancel([call] { call->Cancel(); });
  while (!context.cancelled()) {
    std::vector<v1::Trajectory> batch;
    const absl::Status status = FetchOnce(request, *call, batch);
    if (status.ok()) return batch;
    if (context.cancelled()) break;
    // A controller that stops cancels its calls. This task is not cancelled, and the next
    // controller has the batch.
    const bool stops = absl::IsCancelled(status) || absl::IsUnavailable(status);
    if (!stops) {
      return Annotate(status, absl::StrCat("fetching batch ", update.batch_id()));
    }
    Log(LogLevel::kWarn, "the batch cannot be fetched yet",
        {{"job", context.task().job()},
         {"step", update.step()},
         {"error", status.ToString(absl::StatusToStringMode::kWithNoExtraData)}});
    call->Pause(kRetryDelay);
  }
  return absl::CancelledError("update was cancelled before its batch was fetched");
}

}  // namespace baton
