#include "controller/access/audit_log.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "sdk/rpc/error.h"
#include "spdlog/logger.h"
#include "spdlog/sinks/rotating_file_sink.h"

namespace baton::access {
namespace {

constexpr size_t kMaxBytes = 32u << 20;
constexpr size_t kFiles = 4;

class RotatingAuditLog : public AuditLog {
 public:
  explicit RotatingAuditLog(std::shared_ptr<spdlog::sinks::sink> sink)
      : logger_("audit", std::move(sink)) {
    logger_.set_pattern("%v");
    logger_.flush_on(spdlog::level::info);
  }

  void Write(const AuditEntry& entry) override {
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
    logger_.info(line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }

 private:
  spdlog::logger logger_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::Open(const std::string& path) {
  try {
    return std::make_unique<RotatingAuditLog>(
        std::make_shared<spdlog::sinks::rotating_file_sink_mt>(path, kMaxBytes, kFiles));
  } catch (const spdlog::spdlog_ex& error) {
    return absl::FailedPreconditionError(
        absl::StrCat("the audit log ", path, " cannot be written: ", error.what()));
  }
}

}  // namespace baton::access
