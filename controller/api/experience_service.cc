#include "controller/api/experience_service.h"

#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "controller/api/outbox_reactor.h"
#include "sdk/base/status_macros.h"

namespace baton::api {
namespace {

constexpr size_t kChunkBytes = 1u << 20;

using Outbox = OutboxReactor<v1::FetchBatchResponse>;

// Takes trajectories from `next` on, about a chunk of them; where it may not block, those that are
// in memory.
absl::StatusOr<Outbox::Pulled> FillChunk(const controller::BatchPart& part, bool may_block,
                                         size_t* next, v1::FetchBatchResponse* chunk) {
  size_t bytes = 0;
  for (; *next < part.size() && bytes < kChunkBytes; ++*next) {
    std::optional<v1::Trajectory> one = part.TryAt(*next);
    if (!one.has_value() && !may_block) break;
    if (!one.has_value()) {
      BATON_ASSIGN_OR_RETURN(one, part.At(*next));
    }
    bytes += one->ByteSizeLong();
    *chunk->add_trajectories() = *std::move(one);
  }
  if (chunk->trajectories_size() > 0) return Outbox::Pulled::kFilled;
  return *next == part.size() ? Outbox::Pulled::kEnds : Outbox::Pulled::kBlocks;
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
    const auto shared = std::make_shared<const controller::BatchPart>(*std::move(part));
    reactor->PullFrom(
        [shared, next = size_t{0}](auto* chunk, bool may_block) mutable {
          return FillChunk(*shared, may_block, &next, chunk);
        },
        [shared](std::function<void()> work) { shared->Post(std::move(work)); });
  });
  return reactor.get();
}

}  // namespace baton::api
