#include "controller/api/experience_service.h"

#include <limits>
#include <utility>
#include <vector>

#include "controller/api/outbox_reactor.h"

namespace baton::api {
namespace {

constexpr size_t kChunkBytes = 1u << 20;

}  // namespace

ExperienceServiceImpl::ExperienceServiceImpl(controller::ControllerInterface* controller,
                                             const Access& access)
    : GuardedService(v1::ExperienceService::service_full_name(), access.Guard()),
      controller_(controller),
      access_(access) {
  Guard("FetchBatch", &ExperienceServiceImpl::FetchBatch);
}

grpc::ServerWriteReactor<v1::FetchBatchResponse>* ExperienceServiceImpl::FetchBatch(
    grpc::CallbackServerContext* context, const v1::FetchBatchRequest* request) {
  using Outbox = OutboxReactor<v1::FetchBatchResponse>;
  auto reactor = Outbox::Make(std::numeric_limits<size_t>::max(), nullptr, 0,
                              context);  // a batch is bounded itself
  const auto granted = access_.Check(
      *context, {"ExperienceService.FetchBatch", access::Scope::kWorker, request->job()});
  if (!granted.ok()) {
    reactor->End(granted.status());
    return reactor.get();
  }
  reactor->Keep(CutWithToken(access_, *granted, reactor));
  v1::FetchBatchRequest asked = *request;
  asked.set_job(granted->resource);
  controller_->FetchBatch(asked, [reactor](absl::StatusOr<std::vector<v1::Trajectory>> batch) {
    if (!batch.ok()) return reactor->End(batch.status());
    v1::FetchBatchResponse chunk;
    size_t bytes = 0;
    for (v1::Trajectory& trajectory : *batch) {
      bytes += trajectory.ByteSizeLong();
      *chunk.add_trajectories() = std::move(trajectory);
      if (bytes < kChunkBytes) continue;
      if (!reactor->Push(std::move(chunk))) return;
      chunk.Clear();
      bytes = 0;
    }
    if (chunk.trajectories_size() > 0) reactor->Push(std::move(chunk));
    reactor->End(absl::OkStatus());
  });
  return reactor.get();
}

}  // namespace baton::api
