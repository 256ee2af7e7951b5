#include "sdk/worker/experience_client.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "grpcpp/create_channel.h"
#include "sdk/base/log.h"
#include "sdk/base/status_macros.h"
#include "sdk/rpc/error.h"

namespace baton {
namespace {

constexpr absl::Duration kRetryDelay = absl::Milliseconds(200);

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& controller) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  return grpc::CreateCustomChannel(controller, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace

ExperienceClient::ExperienceClient(const WorkerOptions& options)
    : token_(options.token),
      stub_(v1::ExperienceService::NewStub(MakeChannel(options.controller))) {}

absl::StatusOr<std::vector<v1::Trajectory>> ExperienceClient::FetchBatch(
    const TaskContext& context) const {
  const v1::Update& update = context.task().update();
  v1::FetchBatchRequest request;
  request.set_job(context.task().job());
  request.set_batch_id(update.batch_id());
  request.set_capability(update.capability());
  while (!context.cancelled()) {
    grpc::ClientContext call;
    if (!token_.empty()) call.AddMetadata("authorization", absl::StrCat("Bearer ", token_));
    std::vector<v1::Trajectory> batch;
    v1::FetchBatchResponse response;
    const auto reader = stub_->FetchBatch(&call, request);
    while (reader->Read(&response)) {
      for (v1::Trajectory& one : *response.mutable_trajectories()) batch.push_back(std::move(one));
    }
    const absl::Status status = FromGrpc(reader->Finish());
    if (status.ok()) return batch;
    if (!absl::IsUnavailable(status)) {
      return Annotate(status, absl::StrCat("fetching batch ", update.batch_id()));
    }
    Log(LogLevel::kWarn, "the batch cannot be fetched yet",
        {{"job", context.task().job()},
         {"step", update.step()},
         {"error", status.ToString(absl::StatusToStringMode::kWithNoExtraData)}});
    absl::SleepFor(kRetryDelay);
  }
  return absl::CancelledError("update was cancelled before its batch was fetched");
}

}  // namespace baton
