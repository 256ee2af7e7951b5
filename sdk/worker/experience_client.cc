#include "sdk/worker/experience_client.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "baton/v1/experience_service.grpc.pb.h"
#include "grpcpp/create_channel.h"
#include "sdk/base/log.h"
#include "sdk/base/status_macros.h"
#include "sdk/rpc/error.h"

namespace baton {
namespace {

constexpr absl::Duration kRetryDelay = absl::Milliseconds(200);

}  // namespace

ExperienceClient::ExperienceClient(const WorkerOptions& options)
    : controller_(options.controller), token_(options.token) {}

absl::Status ExperienceClient::FetchOnce(const v1::FetchBatchRequest& request,
                                         std::vector<v1::Trajectory>& batch) const {
  grpc::ChannelArguments arguments;  // A channel per attempt: see session.cc.
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto stub = v1::ExperienceService::NewStub(
      grpc::CreateCustomChannel(controller_, grpc::InsecureChannelCredentials(), arguments));
  grpc::ClientContext call;
  if (!token_.empty()) call.AddMetadata("authorization", absl::StrCat("Bearer ", token_));
  const auto reader = stub->FetchBatch(&call, request);
  v1::FetchBatchResponse response;
  while (reader->Read(&response)) {
    for (v1::Trajectory& one : *response.mutable_trajectories()) batch.push_back(std::move(one));
  }
  return FromGrpc(reader->Finish());
}

absl::StatusOr<std::vector<v1::Trajectory>> ExperienceClient::FetchBatch(
    const TaskContext& context) const {
  const v1::Update& update = context.task().update();
  v1::FetchBatchRequest request;
  request.set_job(context.task().job());
  request.set_batch_id(update.batch_id());
  request.set_capability(update.capability());
  while (!context.cancelled()) {
    std::vector<v1::Trajectory> batch;
    const absl::Status status = FetchOnce(request, batch);
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
