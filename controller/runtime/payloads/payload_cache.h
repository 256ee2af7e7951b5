// Cache of trajectories' payloads in memory, counted in bytes.
//
// Payloads are kept in the experience log. While there is room, a payload stays in memory as well,
// because scores and the batch read it soon; the least recently used one goes first. Payloads that
// the log has not taken yet must stay: while these alone are more than a budget, the job begins no
// new generation (PayloadsWait in controller/core/job/events.h).
//
// There are two budgets: one for each job, and one for all jobs of the controller (PayloadBudget).
// A payload is kept packed (packed_payload.h), so it takes its serialised size in memory as in the
// log, and this size is counted.
#ifndef BATON_CONTROLLER_RUNTIME_PAYLOADS_PAYLOAD_CACHE_H_
#define BATON_CONTROLLER_RUNTIME_PAYLOADS_PAYLOAD_CACHE_H_

#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "controller/runtime/payloads/packed_payload.h"

namespace baton::controller {

/// The default budgets of a controller and of a job.
inline constexpr uint64_t kPayloadBytes = uint64_t{8} << 30;
inline constexpr uint64_t kJobPayloadBytes = uint64_t{4} << 30;

/// The bytes of all jobs. Thread-safe. Each cache holds it: the last callback of a job that is
/// going away may run after the controller is gone, and gives the job's bytes back even then.
class PayloadBudget {
 public:
  explicit PayloadBudget(uint64_t limit) : limit_(limit) {}
  uint64_t limit() const { return limit_; }
  /// Bytes of payloads that the log has as well.
  uint64_t cached() const { return cached_; }
  /// Bytes of payloads that the log does not have yet.
  uint64_t unwritten() const { return unwritten_; }
  /// Bytes that fetchable batches add to payloads.
  uint64_t batches() const { return batches_; }

 private:
  friend class PayloadCache;
  const uint64_t limit_;
  std::atomic<uint64_t> cached_{0}, unwritten_{0}, batches_{0};
};

/// The payloads of one job. Not thread-safe: it belongs to the job's strand. The payloads that it
/// gives out never change.
class PayloadCache {
 public:
  using Payload = std::shared_ptr<const PackedPayload>;

  /// `limit`: bytes of this job.
  PayloadCache(std::shared_ptr<PayloadBudget> budget, uint64_t limit)
      : budget_(std::move(budget)), limit_(limit) {}
  /// Gives all its bytes back to the budget.
  ~PayloadCache();
  PayloadCache(const PayloadCache&) = delete;

  /// Null: the payload is only in the log, or nowhere.
  Payload Find(uint64_t trajectory);
  /// Keeps a payload that the log has, while there is room; replaces an earlier one of the
  /// trajectory.
  void Put(uint64_t trajectory, Payload payload);
  void Erase(uint64_t trajectory);
  void Clear();
  /// The trajectories whose payloads it has.
  void AppendIds(std::vector<uint64_t>* ids) const {
    for (const auto& [id, kept] : by_id_) ids->push_back(id);
  }

  /// A write of `bytes` bytes begins; it ended.
  void BeginWrite(uint64_t bytes);
  void EndWrite(uint64_t bytes);
  /// Sets the bytes that the fetchable batch has beside the payloads in the log.
  void SetBatch(uint64_t bytes);

  /// True if the bytes that wait for the log are more than a budget.
  bool Full() const { return FullOfJob() || budget_->unwritten_ > budget_->limit_; }
  bool FullOfJob() const { return unwritten_ > limit_; }
  uint64_t cached() const { return cached_; }
  uint64_t unwritten() const { return unwritten_; }
  uint64_t limit() const { return limit_; }
  const PayloadBudget& budget() const { return *budget_; }

 private:
  struct Kept {
    uint64_t trajectory = 0;
    Payload payload;
    uint64_t bytes = 0;
  };
  using Order = std::list<Kept>;

  void Remove(Order::iterator kept);
  /// Drops payloads until the rest has room.
  void MakeRoom();

  const std::shared_ptr<PayloadBudget> budget_;
  const uint64_t limit_;
  Order order_;  // the one that was used longest ago first
  std::map<uint64_t, Order::iterator> by_id_;
  uint64_t cached_ = 0, unwritten_ = 0, batch_ = 0;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_PAYLOADS_PAYLOAD_CACHE_H_
