// The critics' methods on fake weights.
#ifndef BATON_TESTS_FAKE_WORKER_FAKE_CRITIC_H_
#define BATON_TESTS_FAKE_WORKER_FAKE_CRITIC_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "baton/v1/worker_service.pb.h"
#include "sdk/worker/experience_client.h"
#include "sdk/worker/task_context.h"

namespace baton::fake {

/// The critic's weights are a hash over everything it was trained on (fake_weights.h), and its
/// values depend on them: a job whose critic lost a step ends with other weights. Writes
/// ROLE/weights.json and ROLE.json of a checkpoint. Methods may be repeated, as the actor's.
/// Thread-safe.
class FakeCritic {
 public:
  /// `role`: "critic" or "cost_critic".
  FakeCritic(std::string role, const ExperienceClient* experience)
      : role_(std::move(role)), experience_(experience) {}

  absl::StatusOr<v1::TaskResult> Assign(const v1::Task& task, TaskContext& context);
  absl::StatusOr<v1::TaskResult> Update(const v1::Task& task, TaskContext& context);
  absl::StatusOr<v1::TaskResult> SaveCheckpoint(const v1::Task& task, TaskContext& context);
  /// Column `values`, of role cost_critic `cost_values`: a pure function of the weights, the
  /// prompt's tokens and the response's tokens before each.
  absl::StatusOr<v1::TaskResult> ComputeValues(const v1::Task& task, TaskContext& context);

 private:
  const std::string role_;
  const ExperienceClient* const experience_;
  absl::Mutex mu_;
  int rank_ ABSL_GUARDED_BY(mu_) = 0;  ///< Rank 0 writes.
  uint64_t weights_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t step_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t policy_version_ ABSL_GUARDED_BY(mu_) = 0;
  v1::TaskResult last_update_ ABSL_GUARDED_BY(mu_);
};

}  // namespace baton::fake

#endif  // BATON_TESTS_FAKE_WORKER_FAKE_CRITIC_H_
