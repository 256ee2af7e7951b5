// The actor's methods on fake weights.
#ifndef BATON_TESTS_FAKE_WORKER_FAKE_ACTOR_H_
#define BATON_TESTS_FAKE_WORKER_FAKE_ACTOR_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "baton/v1/worker_service.pb.h"
#include "sdk/worker/experience_client.h"
#include "sdk/worker/task_context.h"
#include "tests/fake_worker/fake_weights.h"

namespace baton::fake {

/// One thread at a time (the SDK runs group commands one after the other). A method is repeatable:
/// `update` of the step already made answers its first result.
class FakeActor {
 public:
  FakeActor(const ExperienceClient* experience, const FakeRelay* relay)
      : experience_(experience), relay_(relay) {}

  absl::StatusOr<v1::TaskResult> Assign(const v1::Task& task, TaskContext& context);
  absl::StatusOr<v1::TaskResult> Update(const v1::Task& task, TaskContext& context);
  absl::StatusOr<v1::TaskResult> Publish(const v1::Task& task, TaskContext& context);
  /// Gives `weight_sync` what the rollout of this worker samples with from now on.
  absl::StatusOr<v1::TaskResult> ToGeneration(
      const v1::Task& task,
      const std::function<void(uint64_t version, uint64_t weights)>& weight_sync);
  absl::StatusOr<v1::TaskResult> SaveCheckpoint(const v1::Task& task, TaskContext& context);
  /// val/accuracy in [0, 1]: a pure function of the weights and the batch.
  absl::StatusOr<v1::TaskResult> Evaluate(const v1::Task& task, TaskContext& context);
  absl::StatusOr<v1::TaskResult> Export(const v1::Task& task, TaskContext& context);
  /// Column `old_log_prob`: a pure function of the weights and the tokens up to each.
  absl::StatusOr<v1::TaskResult> ComputeLogProb(const v1::Task& task, TaskContext& context);

 private:
  const ExperienceClient* const experience_;
  const FakeRelay* const relay_;
  int rank_ = 0;  ///< Rank 0 publishes and writes.
  uint64_t weights_ = 0;
  int64_t step_ = 0;
  uint64_t policy_version_ = 0;
  v1::TaskResult last_update_;
};

}  // namespace baton::fake

#endif  // BATON_TESTS_FAKE_WORKER_FAKE_ACTOR_H_
