// The payloads of one job's trajectories in memory, and their way into the experience log.
#ifndef BATON_CONTROLLER_RUNTIME_JOB_PAYLOADS_H_
#define BATON_CONTROLLER_RUNTIME_JOB_PAYLOADS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/runtime/job/job_disk.h"
#include "controller/runtime/job/job_scope.h"
#include "controller/runtime/payloads/partial_response.h"
#include "controller/runtime/payloads/payload_cache.h"

namespace baton::controller {

/// Payloads are kept in the experience log; those used last are in memory as well. On the job's
/// strand.
class Payloads {
 public:
  Payloads(const JobScope* scope, JobDisk* disk);

  /// Null: the payload is only in the experience log.
  PayloadCache::Payload Find(uint64_t trajectory) { return cache_.Find(trajectory); }
  /// Keeps a payload that the log has.
  void Keep(uint64_t trajectory, PayloadCache::Payload payload);
  /// The same, if there is none of that trajectory in memory.
  void KeepRead(uint64_t trajectory, const v1::Trajectory& payload);
  /// Writes a payload to the log; `done` runs once the log has it.
  void Store(PayloadCache::Payload payload,
             std::function<void(const absl::StatusOr<PayloadLocation>&)> done);
  /// Adds the column that a score node made to the payload in memory.
  void AddColumn(uint64_t trajectory, uint32_t node, const v1::Column& column);
  /// Tells the core whether payloads that wait for the log leave room for more (PayloadsWait).
  void CheckBudget();

  /// The known tokens of a response that is being generated; a new object if there are none.
  PartialResponse& Partial(uint64_t trajectory) { return partials_[trajectory]; }
  /// Null: no tokens are known.
  PartialResponse* FindPartial(uint64_t trajectory);
  void DropPartial(uint64_t trajectory) { partials_.erase(trajectory); }

  /// Sets the bytes that the fetchable batch has beside the payloads in the log.
  void SetBatch(uint64_t bytes) { cache_.SetBatch(bytes); }

  void Drop(uint64_t trajectory);
  void DropAll();
  /// Trajectories whose payloads or tokens are in memory.
  std::vector<uint64_t> Held() const;

 private:
  const JobScope* const scope_;
  JobDisk* const disk_;
  PayloadCache cache_;
  std::map<uint64_t, PartialResponse> partials_;  // by trajectory
  bool waits_ = false;                            // as the core knows
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_JOB_PAYLOADS_H_
