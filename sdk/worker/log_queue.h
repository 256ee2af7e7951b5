// A queue of the worker's own log lines for the job's log.
#ifndef BATON_SDK_WORKER_LOG_QUEUE_H_
#define BATON_SDK_WORKER_LOG_QUEUE_H_

#include <cstddef>
#include <deque>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "baton/v1/worker_service.pb.h"
#include "sdk/common/base/log.h"

namespace baton {

/// Thread-safe and bounded, in lines, in bytes of each line and in bytes of all
/// (sdk/common/contracts/text_bounds.h): if the controller does not take the lines, the oldest
/// lines are dropped, and one line says how many.
class LogQueue {
 public:
  /// Later lines belong to this job; empty: to no job.
  void SetJob(absl::string_view job);
  void Push(LogLevel level, absl::string_view line);
  /// False: the queue is empty.
  bool Pop(v1::WorkerLog& log);

 private:
  absl::Mutex mu_;
  std::string job_ ABSL_GUARDED_BY(mu_);
  std::deque<v1::WorkerLog> lines_ ABSL_GUARDED_BY(mu_);
  size_t bytes_ ABSL_GUARDED_BY(mu_) = 0;  // of the lines
  size_t dropped_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace baton

#endif  // BATON_SDK_WORKER_LOG_QUEUE_H_
