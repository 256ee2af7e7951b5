#include "sdk/worker/log_queue.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "sdk/common/base/cut_text.h"
#include "sdk/common/base/utf8.h"
#include "sdk/common/contracts/text_bounds.h"

namespace baton {
namespace {

const char* LevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "DEBUG";
    case LogLevel::kInfo:
      return "INFO";
    case LogLevel::kWarn:
      return "WARN";
    case LogLevel::kError:
      return "ERROR";
  }
  return "INFO";
}

}  // namespace

void LogQueue::SetJob(absl::string_view job) {
  absl::MutexLock lock(&mu_);
  job_ = std::string(job);
}

void LogQueue::Push(LogLevel level, absl::string_view line) {
  v1::WorkerLog log;
  log.set_level(LevelName(level));
  // Cut before it is repaired: the repair of a line of gigabytes takes as many.
  log.set_message(CutText(ReplaceInvalidUtf8(CutText(line, kLogLineBytes)), kLogLineBytes));
  absl::MutexLock lock(&mu_);
  log.set_job(job_);
  bytes_ += log.message().size();
  lines_.push_back(std::move(log));
  const auto full = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return lines_.size() > kWaitingLogLines || bytes_ > kWaitingLogBytes;
  };
  for (; full(); ++dropped_) {
    bytes_ -= lines_.front().message().size();
    lines_.pop_front();
  }
}

bool LogQueue::Pop(v1::WorkerLog& log) {
  absl::MutexLock lock(&mu_);
  if (dropped_ > 0) {
    log.Clear();
    log.set_job(job_);
    log.set_level("WARN");
    log.set_message(
        absl::StrCat(dropped_, " log lines were dropped while the controller was away"));
    dropped_ = 0;
    return true;
  }
  if (lines_.empty()) return false;
  bytes_ -= lines_.front().message().size();
  log = std::move(lines_.front());
  lines_.pop_front();
  return true;
}

}  // namespace baton
