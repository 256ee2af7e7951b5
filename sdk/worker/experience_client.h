// Fetches the batch that an update trains on.
#ifndef BATON_SDK_WORKER_EXPERIENCE_CLIENT_H_
#define BATON_SDK_WORKER_EXPERIENCE_CLIENT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "baton/v1/experience.pb.h"
#include "baton/v1/experience_service.pb.h"
#include "sdk/worker/task_context.h"
#include "sdk/worker/worker.h"

namespace baton {

/// Thread-safe.
class ExperienceClient {
 public:
  /// Of the same controller, with the same token, as the worker's.
  explicit ExperienceClient(const WorkerOptions& options);

  /// The whole batch of an "update" task, in its fixed order. Tries again while the controller is
  /// unreachable or silent, as long as the task is wanted. CANCELLED, at once, when it is not any
  /// more; otherwise the controller's error (a batch is gone after its step).
  absl::StatusOr<std::vector<v1::Trajectory>> FetchBatch(TaskContext& context) const;

 private:
  class Call;
  absl::Status FetchOnce(const v1::FetchBatchRequest& request, Call& call,
                         std::vector<v1::Trajectory>& batch) const;

  const std::string controller_;
  const std::string token_;
  const TlsFiles tls_;
};

}  // namespace baton

#endif  // BATON_SDK_WORKER_EXPERIENCE_CLIENT_H_
