#include "workers/rollout/speculation/drafter_cache.h"

#include <utility>

namespace baton::rollout {
namespace {

bool Equal(const TreeCacheOptions& a, const TreeCacheOptions& b) {
  return a.depth == b.depth && a.half_life_updates == b.half_life_updates &&
         a.max_bytes == b.max_bytes;
}

}  // namespace

DrafterCache::DrafterCache(absl::Duration longest)
    : longest_(longest), thread_([this] { DropLate(); }) {}

DrafterCache::~DrafterCache() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  thread_.join();
}

absl::StatusOr<std::unique_ptr<TreeDrafter>> DrafterCache::TakeOrMake(
    const std::string& job_uid, const TreeCacheOptions& options) {
  Held held;
  {
    absl::MutexLock lock(&mu_);
    held = std::exchange(held_, {});
  }
  if (held.drafter && held.job_uid == job_uid && Equal(held.options, options)) {
    return std::move(held.drafter);
  }
  held.drafter.reset();  // Before the new one grows.
  auto cache = TreeCache::Create(options);
  if (!cache.ok()) return cache.status();
  return std::make_unique<TreeDrafter>(*std::move(cache));
}

void DrafterCache::Keep(const std::string& job_uid, const TreeCacheOptions& options,
                        std::unique_ptr<TreeDrafter> drafter) {
  Held held;  // Freed without the lock: that may take long.
  if (!job_uid.empty()) held = {job_uid, options, std::move(drafter)};
  absl::MutexLock lock(&mu_);
  std::swap(held, held_);
  ++kept_;
}

bool DrafterCache::empty() const {
  absl::MutexLock lock(&mu_);
  return held_.drafter == nullptr;
}

void DrafterCache::DropLate() {
  while (true) {
    Held late;
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(this, &DrafterCache::Wakes));
    if (stopping_) return;
    seen_ = kept_;
    if (mu_.AwaitWithTimeout(absl::Condition(this, &DrafterCache::Changed), longest_)) continue;
    std::swap(late, held_);
  }
}

}  // namespace baton::rollout
