#include "controller/api/experience_service.h"

#include <limits>
#include <utility>

#include "controller/api/outbox_reactor.h"

namespace baton::api {
namespace {

constexpr size_t kChunkBytes = 1u << 20;

// Takes trajectories from `next` on, about a chunk of them. False: there are no more.
bool FillChunk(const controller::BatchPart& part, size_t* next, v1::FetchBatchResponse* chunk) {
  size_t bytes = 0;
  for (; *next < part.size() && bytes < kChunkBytes; ++*next) {
    v1::Trajectory* trajectory = chunk->add_trajectories();
    *trajectory = part.At(*next);
    bytes += trajectory->ByteSizeLong();
  }
  return chunk->trajectories_size() > 0;
}

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
                              context);  // one chunk waits at a time
  const auto granted = access_.Check(
      *context, {"ExperienceService.FetchBatch", access::Scope::kWorker, request->job()});
  if (!granted.ok()) {
    reactor->End(granted.status());
    return reactor.get();
  }
  reactor->Keep(CutWithToken(access_, *granted, reactor));
  v1::FetchBatchRequest asked = *request;
  asked.set_job(granted->resource);
  controller_->FetchBatch(asked, [reactor](absl::StatusOr<controller::BatchPart> part) {
    if (!part.ok()) return reactor->End(part.status());
    reactor->PullFrom([part = *std::move(part), next = size_t{0}](auto* chunk) mutable {
      return FillChunk(part, &next, chunk);
    });
  });
  return reactor.get();
}

}  // namespace baton::api
