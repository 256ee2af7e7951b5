#include "sdk/common/process/program.h"

#include <cstdio>
#include <map>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"

namespace baton {

void DeclareLogOptions(CLI::App& app, LogOptions* log) {
  static const std::map<std::string, LogLevel> kLevels = {{"debug", LogLevel::kDebug},
                                                          {"info", LogLevel::kInfo},
                                                          {"warn", LogLevel::kWarn},
                                                          {"error", LogLevel::kError}};
  app.add_option("--log-file", log->file, "Append the log here instead of standard error");
  app.add_option_function<std::string>(
         "--log-level", [log](const std::string& name) { log->level = kLevels.at(name); },
         "debug, info, warn or error")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}))
      ->default_str("info");
}

int Fail(absl::string_view program, const absl::Status& status) {
  std::fputs(absl::StrCat(program, ": ", status.message(), "\n").c_str(), stderr);
  return 1;
}

}  // namespace baton
