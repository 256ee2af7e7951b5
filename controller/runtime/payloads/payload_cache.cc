#include "controller/runtime/payloads/payload_cache.h"

#include <utility>

namespace baton::controller {

PayloadCache::~PayloadCache() {
  Clear();
  SetBatch(0);
  budget_->unwritten_ -= unwritten_;
}

PayloadCache::Payload PayloadCache::Find(uint64_t trajectory) {
  const auto found = by_id_.find(trajectory);
  if (found == by_id_.end()) return nullptr;
  order_.splice(order_.end(), order_, found->second);
  return found->second->payload;
}

void PayloadCache::Put(uint64_t trajectory, Payload payload) {
  Erase(trajectory);
  const uint64_t bytes = payload->bytes();
  by_id_[trajectory] = order_.insert(order_.end(), {trajectory, std::move(payload), bytes});
  cached_ += bytes;
  budget_->cached_ += bytes;
  MakeRoom();
}

void PayloadCache::Erase(uint64_t trajectory) {
  const auto found = by_id_.find(trajectory);
  if (found != by_id_.end()) Remove(found->second);
}

void PayloadCache::Clear() {
  while (!order_.empty()) Remove(order_.begin());
}

void PayloadCache::Remove(Order::iterator kept) {
  cached_ -= kept->bytes;
  budget_->cached_ -= kept->bytes;
  by_id_.erase(kept->trajectory);
  order_.erase(kept);
}

void PayloadCache::MakeRoom() {
  const auto fits = [this] {
    const bool of_all =
        budget_->cached_ + budget_->unwritten_ + budget_->batches_ <= budget_->limit_;
    return of_all && cached_ + unwritten_ + batch_ <= limit_;
  };
  while (!order_.empty() && !fits()) Remove(order_.begin());
}

void PayloadCache::BeginWrite(uint64_t bytes) {
  unwritten_ += bytes;
  budget_->unwritten_ += bytes;
  MakeRoom();
}

void PayloadCache::EndWrite(uint64_t bytes) {
  unwritten_ -= bytes;
  budget_->unwritten_ -= bytes;
}

void PayloadCache::SetBatch(uint64_t bytes) {
  budget_->batches_ += bytes;
  budget_->batches_ -= std::exchange(batch_, bytes);
  MakeRoom();
}

}  // namespace baton::controller
