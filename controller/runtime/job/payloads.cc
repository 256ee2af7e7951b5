#include "controller/runtime/job/payloads.h"

#include <memory>
#include <utility>

#include "sdk/common/base/status_macros.h"

namespace baton::controller {

Payloads::Payloads(const JobScope* scope, JobDisk* disk)
    : scope_(scope),
      disk_(disk),
      cache_(scope->context->payloads, scope->context->job_payload_bytes) {}

void Payloads::Keep(uint64_t trajectory, PayloadCache::Payload payload) {
  cache_.Put(trajectory, std::move(payload));
}

void Payloads::KeepRead(uint64_t trajectory, const v1::Trajectory& payload) {
  if (cache_.Find(trajectory) != nullptr) return;
  cache_.Put(trajectory, std::make_shared<const PackedPayload>(payload));
}

void Payloads::Store(PayloadCache::Payload payload,
                     std::function<void(const absl::StatusOr<PayloadLocation>&)> done) {
  const uint64_t bytes = payload->bytes();
  cache_.BeginWrite(bytes);
  auto at = std::make_shared<PayloadLocation>();
  const auto write = [this, at, payload = std::move(payload)]() -> absl::Status {
    BATON_ASSIGN_OR_RETURN(*at, disk_->Append(payload->view()));
    return absl::OkStatus();
  };
  disk_->WriteUntilDone(write,
                        [this, at, bytes, done = std::move(done)](const absl::Status& ended) {
                          cache_.EndWrite(bytes);
                          done(ended.ok() ? absl::StatusOr<PayloadLocation>(*at) : ended);
                          CheckBudget();
                        });
  CheckBudget();
}

// Columns are in the order of their score nodes, as when the payload is read from the log, so that
// a batch has the same bytes either way.
void Payloads::AddColumn(uint64_t trajectory, uint32_t node, const v1::Column& column) {
  const PayloadCache::Payload kept = cache_.Find(trajectory);
  if (kept == nullptr) return;
  v1::Trajectory whole = kept->Unpack();
  // A node that runs when a batch is selected runs again for the next batch if the first one was
  // given up.
  for (v1::Column& had : *whole.mutable_columns()) {
    if (had.name() != column.name()) continue;
    had = column;
    return cache_.Put(trajectory, std::make_shared<const PackedPayload>(whole));
  }
  *whole.add_columns() = column;
  const auto& made = scope_->core.Find(trajectory)->columns;
  auto at = whole.columns_size() - 1;
  for (auto later = made.upper_bound(node); later != made.end(); ++later, --at) {
    if (at > 0) whole.mutable_columns()->SwapElements(at - 1, at);
  }
  cache_.Put(trajectory, std::make_shared<const PackedPayload>(whole));
}

void Payloads::CheckBudget() {
  const bool waits = cache_.Full();
  if (waits == waits_) return;
  waits_ = waits;
  PayloadsWait event;
  event.waits = waits;
  event.of_job = cache_.FullOfJob();
  event.bytes = event.of_job ? cache_.unwritten() : cache_.budget().unwritten();
  event.budget = event.of_job ? cache_.limit() : cache_.budget().limit();
  scope_->run(event);
}

PartialResponse* Payloads::FindPartial(uint64_t trajectory) {
  const auto found = partials_.find(trajectory);
  return found == partials_.end() ? nullptr : &found->second;
}

void Payloads::Drop(uint64_t trajectory) {
  cache_.Erase(trajectory);
  partials_.erase(trajectory);
}

void Payloads::DropAll() {
  cache_.SetBatch(0);
  cache_.Clear();
  partials_.clear();
}

std::vector<uint64_t> Payloads::Held() const {
  std::vector<uint64_t> held;
  cache_.AppendIds(&held);
  for (const auto& [id, partial] : partials_) held.push_back(id);
  return held;
}

}  // namespace baton::controller
