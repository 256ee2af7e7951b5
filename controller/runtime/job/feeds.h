// What watchers of one job see: its events and the lines of its log.
#ifndef BATON_CONTROLLER_RUNTIME_JOB_FEEDS_H_
#define BATON_CONTROLLER_RUNTIME_JOB_FEEDS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "controller/runtime/calls/calls.h"
#include "controller/runtime/job/feed.h"
#include "controller/runtime/job/job_scope.h"
#include "controller/runtime/job/job_threads.h"
#include "controller/runtime/job/step_log.h"
#include "controller/runtime/job/turn_log.h"

namespace baton::controller {

/// On the job's strand, unless a method says otherwise. What the store keeps of both feeds is read
/// on the threads of readers.
class Feeds {
 public:
  /// `next_log_sequence`: of the first line that is written.
  Feeds(const JobScope* scope, JobThreads* threads, TurnLog* turns, int64_t next_log_sequence);

  // Any thread.
  std::unique_ptr<Subscription> Watch(int64_t after_revision, std::shared_ptr<EventSink> sink);
  std::unique_ptr<Subscription> ReadLogs(int64_t after, bool follow, std::shared_ptr<LogSink> sink);

  /// An event leaves. The end of the job ends both feeds.
  void Emit(const v1::JobEvent& event);
  /// A line of a worker. While the store is too slow for them, lines are dropped and counted.
  void AddWorkerLine(const std::string& worker, const v1::WorkerLog& line);
  /// The job was set aside: `last` is the event that ends both feeds.
  void EndWith(const v1::JobEvent& last);

 private:
  /// Reads the history after `after` in pieces, to its end.
  void CatchUpEvents(const Feed<v1::JobEvent>::Handle& subscriber, int64_t after);
  void CatchUpLogs(const Feed<v1::LogEntry>::Handle& subscriber, int64_t after);
  void LogEvent(const v1::JobEvent& event);
  void AddLine(const std::string& source, const std::string& level, const std::string& message,
               std::function<void()> after);

  const JobScope* const scope_;
  JobThreads* const threads_;
  TurnLog* const turns_;
  Feed<v1::JobEvent> events_;
  Feed<v1::LogEntry> logs_;
  StepLog step_log_;
  int64_t next_log_sequence_;
  bool logs_ended_;                                  // the log line of the job's end is committed
  size_t worker_lines_ = 0, worker_line_bytes_ = 0;  // not committed yet
  size_t dropped_worker_lines_ = 0;                  // since the last line that was kept
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_JOB_FEEDS_H_
