// The one way Baton logs: spdlog behind `key=value` pairs.
//
//   Log(LogLevel::kInfo, "step finished", {{"job", id}, {"step", 41}, {"reward", 0.93}});
//   -> 2026-11-21T10:00:00.123Z INFO step finished job=addition step=41 reward=0.93
//
// Levels: ERROR someone must act; WARN handled, but look; INFO a life-cycle change;
// DEBUG decisions, and the only level at which prompt or response text may appear.
// Always give `job`, `step`, `worker`, `version`, `attempt` where they exist.
// Thread-safe. Never blocks on anything but the sink's own lock.
#ifndef BATON_SDK_COMMON_BASE_LOG_H_
#define BATON_SDK_COMMON_BASE_LOG_H_

#include <functional>
#include <initializer_list>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace baton {

enum class LogLevel { kDebug, kInfo, kWarn, kError };

/// One `key=value` pair. Values with spaces, quotes or newlines are quoted and escaped.
struct LogField {
  LogField(absl::string_view key, const absl::AlphaNum& value) : key(key), value(value.Piece()) {}
  absl::string_view key;
  std::string value;
};

void Log(LogLevel level, absl::string_view message, std::initializer_list<LogField> fields = {});

struct LogOptions {
  LogLevel level = LogLevel::kInfo;
  std::string file;          ///< Appended to; empty: standard error.
  std::string process_name;  ///< Printed on every line, e.g. "controller".
  bool silent = false;       ///< Nothing is written.
};

/// Called once by main(); without it, INFO and above go to standard error.
void InitLog(const LogOptions& options);

/// Writes nothing from here on: for tests and simulators, which cause errors on purpose. Cheap when
/// it is called again.
void SilenceLog();

/// Opens what InitLog named once more, under its name; later lines go there: a program such as
/// logrotate moves the file away, and then sends SIGHUP. Without a file it does nothing. When the
/// file cannot be opened, the old one stays, and a warning is logged.
void ReopenLog();

/// Whether a program reopens its files at SIGHUP. False for a program that logs to a terminal: it
/// ends with the terminal.
bool ReopensOnHangup();

/// Called for every line at or above INFO, after it was written; for a worker that ships its
/// log to the controller. The function must be thread-safe and must not log. Null removes it.
void SetLogForwarder(std::function<void(LogLevel, absl::string_view line)> forwarder);

}  // namespace baton

#endif  // BATON_SDK_COMMON_BASE_LOG_H_
