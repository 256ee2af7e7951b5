// A client that fetches the batch of an update, and earlier responses to prompts.
#ifndef BATON_SDK_WORKER_EXPERIENCE_CLIENT_H_
#define BATON_SDK_WORKER_EXPERIENCE_CLIENT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "baton/v1/experience.pb.h"
#include "baton/v1/experience_service.pb.h"
#include "sdk/worker/task_context.h"
#include "sdk/worker/worker.h"

namespace grpc {
class Channel;
class ClientContext;
}  // namespace grpc

namespace baton {

/// Ends calls from another thread. One call at a time. Thread-safe.
class CallCanceller {
 public:
  /// The call under way ends at once, and so does every later one.
  void Cancel();

 private:
  friend class ExperienceClient;

  /// False: cancelled already.
  bool Begin(grpc::ClientContext* context);
  void End();
  /// Waits that long, or until it is cancelled.
  void Pause(absl::Duration duration);

  absl::Mutex mu_;
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mu_) = nullptr;
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;
};

/// Keeps its connection from call to call, until one fails: the next call makes a new one, which
/// connects at once. (A kept one has a back-off of its own, which outlasts a controller's restart.)
/// Thread-safe.
class ExperienceClient {
 public:
  /// Connects to the worker's controller, with the worker's token, when it is first asked.
  explicit ExperienceClient(const WorkerOptions& options);

  /// The whole batch of an "update" task, in its fixed order. Tries again while the controller is
  /// unreachable or silent, as long as the task is wanted. CANCELLED at once when the task is
  /// cancelled; otherwise the controller's error (a batch is deleted after its step).
  absl::StatusOr<std::vector<v1::Trajectory>> FetchBatch(TaskContext& context) const;

  /// The part of every trajectory that every rank of a group needs to divide the batch
  /// (FetchBatchRequest, VIEW_HEADERS). A trajectory that has the column `tokens` came whole: its
  /// segments do not tell its lengths. Errors as FetchBatch.
  absl::StatusOr<std::vector<v1::Trajectory>> FetchHeaders(TaskContext& context) const;

  /// The trajectories at these positions of the batch, which ascend. Sends no request if there are
  /// no positions.
  /// Errors as FetchBatch; OUT_OF_RANGE (BATCH_RANGE) for a position that the batch does not have.
  absl::StatusOr<std::vector<v1::Trajectory>> FetchRows(TaskContext& context,
                                                        absl::Span<const int64_t> rows) const;

  /// Earlier responses to prompts. Tries once, for `limit` at most: any error means that there is
  /// no history for now, and nothing waits for it. CANCELLED at once after `canceller` says so.
  absl::StatusOr<std::vector<v1::EarlierResponse>> FetchHistory(
      const v1::FetchHistoryRequest& request, absl::Duration limit, CallCanceller& canceller) const;

 private:
  absl::StatusOr<std::vector<v1::Trajectory>> Fetch(v1::FetchBatchRequest request,
                                                    TaskContext& context) const;
  absl::Status FetchOnce(const v1::FetchBatchRequest& request, CallCanceller& call,
                         std::vector<v1::Trajectory>& batch) const;
  using Channel = std::shared_ptr<grpc::Channel>;
  absl::StatusOr<Channel> Connection() const;
  /// A call over `channel` ended so. Returns `status`.
  absl::Status Ended(const Channel& channel, absl::Status status) const;

  const std::string controller_;
  const std::string token_;
  const TlsFiles tls_;
  mutable absl::Mutex mu_;
  mutable Channel channel_ ABSL_GUARDED_BY(mu_);  // null: the next call connects
};

}  // namespace baton

#endif  // BATON_SDK_WORKER_EXPERIENCE_CLIENT_H_
