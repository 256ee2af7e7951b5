#include "controller/access/audit_log.h"

#include <sys/stat.h>

#include <algorithm>
#include <deque>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "nlohmann/json.hpp"
#include "sdk/common/base/log.h"
#include "sdk/common/rpc/error.h"
#include "spdlog/logger.h"
#include "spdlog/sinks/rotating_file_sink.h"

namespace baton::access {
namespace {

constexpr size_t kMaxBytes = 32u << 20;
constexpr size_t kMaxRefusalsBytes = 8u << 20;
constexpr size_t kFiles = 4;

// May throw spdlog_ex.
std::unique_ptr<spdlog::logger> OpenFile(const std::string& path, size_t max_bytes) {
  spdlog::file_event_handlers handlers;
  handlers.after_open = [](const spdlog::filename_t&, std::FILE* file) {
    ::fchmod(::fileno(file), 0600);
  };
  auto logger = std::make_unique<spdlog::logger>(
      "audit", std::make_shared<spdlog::sinks::rotating_file_sink_st>(path, max_bytes, kFiles,
                                                                      false, handlers));
  logger->set_pattern("%v");
  return logger;
}

nlohmann::ordered_json ToJson(const AuditEntry& entry) {
  nlohmann::ordered_json line = {
      {"time", absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", entry.time, absl::UTCTimeZone())},
      {"caller", entry.caller},
      {"peer", entry.peer},
      {"method", entry.method},
      {"resource", entry.resource},
      {"code", absl::StatusCodeToString(entry.outcome.code())}};
  if (!entry.outcome.ok()) {
    line["reason"] = ErrorReason(entry.outcome);
    line["message"] = std::string(entry.outcome.message());
  }
  return line;
}

class AuditLogImpl : public AuditLog {
 public:
  AuditLogImpl(AuditOptions options, std::unique_ptr<spdlog::logger> known,
               std::unique_ptr<spdlog::logger> unknown)
      : options_(std::move(options)),
        known_(std::move(known)),
        unknown_(std::move(unknown)),
        budget_(options_.refusals_burst),
        thread_([this] { Main(); }) {}

  ~AuditLogImpl() override {
    {
      absl::MutexLock lock(&mu_);
      stopping_ = true;
    }
    thread_.join();
  }

  void Write(AuditEntry entry) override {
    absl::MutexLock lock(&mu_);
    Push({std::move(entry), /*known=*/true, 0});
  }

  void WriteUnknown(AuditEntry entry) override {
    absl::MutexLock lock(&mu_);
    const double passed = std::max(absl::ToDoubleSeconds(entry.time - refilled_), 0.0);
    budget_ = std::min(budget_ + passed * options_.refusals_per_second, options_.refusals_burst);
    refilled_ = std::max(refilled_, entry.time);
    if (budget_ < 1) {
      ++suppressed_;
      return;
    }
    budget_ -= 1;
    Push({std::move(entry), /*known=*/false, std::exchange(suppressed_, 0)});
  }

  void Reopen() override {
    absl::MutexLock lock(&mu_);
    reopen_ = true;
  }

  void Flush() override {
    absl::MutexLock lock(&mu_);
    const uint64_t all = pushed_;
    const auto written = [this, all]()
                             ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return written_ >= all; };
    mu_.Await(absl::Condition(&written));
  }

 private:
  struct Waiting {
    AuditEntry entry;
    bool known = true;
    uint64_t suppressed = 0;  // refusals before it that no file has
  };

  void Push(Waiting waiting) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (queue_.size() >= options_.max_waiting) {
      ++dropped_;
      return;
    }
    queue_.push_back(std::move(waiting));
    ++pushed_;
  }

  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return stopping_ || reopen_ || !queue_.empty() || dropped_ > 0;
  }

  void Main() {
    while (true) {
      std::deque<Waiting> batch;
      uint64_t dropped = 0;
      bool reopen = false;
      {
        absl::MutexLock lock(&mu_);
        mu_.Await(absl::Condition(this, &AuditLogImpl::HasWork));
        batch.swap(queue_);
        dropped = std::exchange(dropped_, 0);
        reopen = std::exchange(reopen_, false);
        if (batch.empty() && dropped == 0 && !reopen) return;  // the log stops
      }
      if (reopen) OpenAnew();
      for (const Waiting& waiting : batch) {
        nlohmann::ordered_json line = ToJson(waiting.entry);
        if (waiting.suppressed > 0) line["suppressed_before"] = waiting.suppressed;
        WriteLine(waiting.known ? *known_ : *unknown_, line);
      }
      if (dropped > 0) {
        WriteLine(*known_, {{"dropped", dropped}});
      }
      known_->flush();
      unknown_->flush();
      absl::MutexLock lock(&mu_);
      written_ += batch.size();
    }
  }

  void OpenAnew() {
    try {
      auto known = OpenFile(options_.path, kMaxBytes);
      auto unknown = OpenFile(options_.refusals_path, kMaxRefusalsBytes);
      known_ = std::move(known);
      unknown_ = std::move(unknown);
    } catch (const spdlog::spdlog_ex& error) {
      Log(LogLevel::kWarn, "the audit log cannot be reopened; the old files stay open",
          {{"file", options_.path}, {"error", error.what()}});
    }
  }

  static void WriteLine(spdlog::logger& logger, const nlohmann::ordered_json& line) {
    logger.info(line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }

  // Constant after construction.
  const AuditOptions options_;
  // Owned by the thread.
  std::unique_ptr<spdlog::logger> known_, unknown_;
  // Guarded by mu_.
  absl::Mutex mu_;
  std::deque<Waiting> queue_ ABSL_GUARDED_BY(mu_);
  uint64_t pushed_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t written_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t dropped_ ABSL_GUARDED_BY(mu_) = 0;     // since the thread last reported them
  uint64_t suppressed_ ABSL_GUARDED_BY(mu_) = 0;  // refusals since the last one that was kept
  double budget_ ABSL_GUARDED_BY(mu_);            // refusals that may be written now
  absl::Time refilled_ ABSL_GUARDED_BY(mu_) = absl::UnixEpoch();
  bool reopen_ ABSL_GUARDED_BY(mu_) = false;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::Open(AuditOptions options) {
  try {
    auto known = OpenFile(options.path, kMaxBytes);
    auto unknown = OpenFile(options.refusals_path, kMaxRefusalsBytes);
    return std::make_unique<AuditLogImpl>(std::move(options), std::move(known), std::move(unknown));
  } catch (const spdlog::spdlog_ex& error) {
    return absl::FailedPreconditionError(
        absl::StrCat("the audit log ", options.path, " cannot be written: ", error.what()));
  }
}

}  // namespace baton::access
