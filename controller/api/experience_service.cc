#include "controller/api/experience_service.h"

#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "controller/api/outbox_reactor.h"
#include "sdk/common/base/status_macros.h"

namespace baton::api {
namespace {

constexpr size_t kChunkBytes = 1u << 20;

using Outbox = OutboxReactor<v1::FetchBatchResponse>;
using HistoryOutbox = OutboxReactor<v1::FetchHistoryResponse>;

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

// Reads the next piece of a history. A piece may have nothing that can be read.
HistoryOutbox::Pulled FillPiece(controller::HistoryPart& part, bool may_block,
                                v1::FetchHistoryResponse* piece) {
  if (may_block) part.Next(piece);
  if (piece->responses_size() > 0) return HistoryOutbox::Pulled::kFilled;
  return part.done() ? HistoryOutbox::Pulled::kEnds : HistoryOutbox::Pulled::kBlocks;
}

}  // namespace

ExperienceServiceImpl::ExperienceServiceImpl(controller::ControllerInterface* controller,
                                             const Access& access)
    : GuardedService(v1::ExperienceService::service_full_name(), access.Guard()),
      controller_(controller),
      access_(access) {
  Guard("FetchBatch", &ExperienceServiceImpl::FetchBatch);
  Guard("FetchHistory", &ExperienceServiceImpl::FetchHistory);
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

grpc::ServerWriteReactor<v1::FetchHistoryResponse>* ExperienceServiceImpl::FetchHistory(
    grpc::CallbackServerContext* context, const v1::FetchHistoryRequest* request) {
  auto reactor = HistoryOutbox::Make(std::numeric_limits<size_t>::max(), nullptr, 0,
                                     context);  // one piece waits at a time
  const auto granted = access_.Check(
      *context, {"ExperienceService.FetchHistory", access::Scope::kWorker, request->job()});
  if (!granted.ok()) {
    reactor->End(granted.status());
    return reactor.get();
  }
  reactor->Keep(CutWithToken(access_, *granted, reactor));
  v1::FetchHistoryRequest asked = *request;
  asked.set_job(granted->resource);
  controller_->FetchHistory(
      asked, [reactor](absl::StatusOr<std::shared_ptr<controller::HistoryPart>> part) {
        if (!part.ok()) return reactor->End(part.status());
        reactor->PullFrom(
            [part = *part](auto* piece, bool may_block) {
              return FillPiece(*part, may_block, piece);
            },
            [part = *part](std::function<void()> work) { part->Post(std::move(work)); });
      });
  return reactor.get();
}

}  // namespace baton::api
