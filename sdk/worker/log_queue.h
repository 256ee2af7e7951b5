// The worker's own log lines on their way to the job's log.
#ifndef BATON_SDK_WORKER_LOG_QUEUE_H_
#define BATON_SDK_WORKER_LOG_QUEUE_H_

#include <cstddef>
#include <deque>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "baton/v1/worker_service.pb.h"
#include "sdk/base/log.h"

namespace baton {

/// Thread-safe and bounded: when the controller does not take them, the oldest lines are dropped
/// and a line says how many.
class LogQueue {
 public:
  /// Lines that are pushed from now on belong to this job; empty: to none.
  void SetJob(absl::string_view job);
  void Push(LogLevel level, absl::string_view line);
  /// False: there is none.
  bool Pop(v1::WorkerLog& log);

 private:
  static constexpr size_t kMaxLines = 1000;

  absl::Mutex mu_;
  std::string job_ ABSL_GUARDED_BY(mu_);
  std::deque<v1::WorkerLog> lines_ ABSL_GUARDED_BY(mu_);
  size_t dropped_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace baton

#endif  // BATON_SDK_WORKER_LOG_QUEUE_H_
