#include "sdk/common/process/program.h"

#include <string>

#include "CLI/CLI.hpp"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

LogOptions Parse(const std::string& arguments) {
  LogOptions log;
  CLI::App app;
  DeclareLogOptions(app, &log);
  app.parse(arguments);
  return log;
}

TEST(ProgramTest, ReadsLogOptions) {
  EXPECT_EQ(Parse("").level, LogLevel::kInfo);
  EXPECT_EQ(Parse("").file, "");
  EXPECT_EQ(Parse("--log-level debug --log-file /f").level, LogLevel::kDebug);
  EXPECT_EQ(Parse("--log-level debug --log-file /f").file, "/f");
  EXPECT_EQ(Parse("--log-level warn").level, LogLevel::kWarn);
  EXPECT_EQ(Parse("--log-level error").level, LogLevel::kError);
  EXPECT_THROW(Parse("--log-level loud"), CLI::ValidationError);
}

TEST(ProgramTest, PrintsWhatFailed) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(Fail("baton-relay", absl::NotFoundError("no such folder")), 1);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "baton-relay: no such folder\n");
}

}  // namespace
}  // namespace baton
