// The drafter of a job that a worker was released from, for the case that the worker is assigned to
// the job again.
//
// That happens after a pause, when the job's trainer died, or when the controller was restarted.
// The drafter's knowledge is still valid: the policy's responses, and the cost of a pass here.
#ifndef BATON_WORKERS_ROLLOUT_SPECULATION_DRAFTER_CACHE_H_
#define BATON_WORKERS_ROLLOUT_SPECULATION_DRAFTER_CACHE_H_

#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "workers/rollout/speculation/tree_drafter.h"
#include "workers/rollout/tree_cache/tree_cache.h"

namespace baton::rollout {

/// Holds one drafter at most, and each for a limited time: its trees may have gigabytes.
/// Thread-safe.
class DrafterCache {
 public:
  explicit DrafterCache(absl::Duration longest = absl::Minutes(30));
  ~DrafterCache();
  DrafterCache(const DrafterCache&) = delete;
  DrafterCache& operator=(const DrafterCache&) = delete;

  /// The drafter that is held, if it was given for the same job and equal options, else a new one.
  /// Then none is held. Fails as TreeCache::Create does.
  absl::StatusOr<std::unique_ptr<TreeDrafter>> TakeOrMake(const std::string& job_uid,
                                                          const TreeCacheOptions& options);
  /// Holds `drafter`, which no generator uses, instead of the one that it held. Without a
  /// `job_uid` the drafter is dropped.
  void Keep(const std::string& job_uid, const TreeCacheOptions& options,
            std::unique_ptr<TreeDrafter> drafter);
  void Drop() { Keep("", {}, nullptr); }

  bool empty() const;

 private:
  struct Held {
    std::string job_uid;
    TreeCacheOptions options;
    std::unique_ptr<TreeDrafter> drafter;
  };
  bool Wakes() const ABSL_SHARED_LOCKS_REQUIRED(mu_) { return stopping_ || held_.drafter; }
  bool Changed() const ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return stopping_ || !held_.drafter || kept_ != seen_;
  }
  void DropLate();

  const absl::Duration longest_;
  mutable absl::Mutex mu_;
  Held held_ ABSL_GUARDED_BY(mu_);
  int64_t kept_ ABSL_GUARDED_BY(mu_) = 0;  // calls of Keep …
  int64_t seen_ ABSL_GUARDED_BY(mu_) = 0;  // … and the one that the thread waits for
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;  // drops what was held too long
};

}  // namespace baton::rollout

#endif  // BATON_WORKERS_ROLLOUT_SPECULATION_DRAFTER_CACHE_H_
