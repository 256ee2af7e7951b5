#include "sdk/common/base/log.h"

#include <unistd.h>

#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/escaping.h"
#include "absl/synchronization/mutex.h"
#include "spdlog/sinks/rotating_file_sink.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace baton {
namespace {

constexpr size_t kMaxFileBytes = 32u << 20;
constexpr size_t kOlderFiles = 4;

struct State {
  absl::Mutex mu;
  LogOptions options ABSL_GUARDED_BY(mu);
  std::shared_ptr<spdlog::logger> logger ABSL_GUARDED_BY(mu);
  std::function<void(LogLevel, absl::string_view)> forwarder ABSL_GUARDED_BY(mu);
};

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

std::shared_ptr<spdlog::logger> MakeLogger(const LogOptions& options) {
  spdlog::sink_ptr sink;
  if (options.file.empty()) {
    sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  } else {
    // The sink rotates the file itself; a rename by others is announced by ReopenLog.
    sink = std::make_shared<spdlog::sinks::rotating_file_sink_mt>(options.file, kMaxFileBytes,
                                                                  kOlderFiles);
  }
  auto logger = std::make_shared<spdlog::logger>("baton", std::move(sink));
  const std::string name = options.process_name.empty() ? "" : options.process_name + " ";
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %L " + name + "%v", spdlog::pattern_time_type::utc);
  logger->set_level(options.silent ? spdlog::level::off : ToSpdlog(options.level));
  logger->flush_on(spdlog::level::info);
  return logger;
}

State& GlobalState() {
  static State* const state = [] {
    auto* s = new State;
    absl::MutexLock lock(&s->mu);
    s->logger = MakeLogger({});
    return s;
  }();
  return *state;
}

bool NeedsQuotes(absl::string_view value) {
  return value.empty() || value.find_first_of(" \t\r\n\"=") != absl::string_view::npos;
}

}  // namespace

void Log(LogLevel level, absl::string_view message, std::initializer_list<LogField> fields) {
  State& state = GlobalState();
  std::shared_ptr<spdlog::logger> logger;
  std::function<void(LogLevel, absl::string_view)> forwarder;
  {
    absl::MutexLock lock(&state.mu);
    logger = state.logger;
    if (level >= LogLevel::kInfo) forwarder = state.forwarder;
  }
  if (!logger->should_log(ToSpdlog(level)) && !forwarder) return;
  std::string line(message);
  for (const LogField& field : fields) {
    absl::StrAppend(&line, " ", field.key, "=");
    if (NeedsQuotes(field.value)) {
      absl::StrAppend(&line, "\"", absl::Utf8SafeCEscape(field.value), "\"");
    } else {
      line += field.value;
    }
  }
  logger->log(ToSpdlog(level), spdlog::string_view_t(line.data(), line.size()));
  if (forwarder) forwarder(level, line);
}

void InitLog(const LogOptions& options) {
  State& state = GlobalState();
  auto logger = MakeLogger(options);
  absl::MutexLock lock(&state.mu);
  state.options = options;
  state.logger = std::move(logger);
}

void SilenceLog() {
  static const bool silenced = [] {
    LogOptions options;
    options.silent = true;
    InitLog(options);
    return true;
  }();
  (void)silenced;
}

void ReopenLog() {
  State& state = GlobalState();
  LogOptions options;
  {
    absl::MutexLock lock(&state.mu);
    options = state.options;
  }
  if (options.file.empty()) return;
  try {
    InitLog(options);  // the old file is closed by the last line that is being written to it
  } catch (const spdlog::spdlog_ex& error) {
    Log(LogLevel::kWarn, "the log file cannot be reopened; logging goes on in the old one",
        {{"file", options.file}, {"error", error.what()}});
  }
}

bool ReopensOnHangup() {
  State& state = GlobalState();
  absl::MutexLock lock(&state.mu);
  return !state.options.file.empty() || ::isatty(STDERR_FILENO) == 0;
}

void SetLogForwarder(std::function<void(LogLevel, absl::string_view)> forwarder) {
  State& state = GlobalState();
  absl::MutexLock lock(&state.mu);
  state.forwarder = std::move(forwarder);
}

}  // namespace baton
