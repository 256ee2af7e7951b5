#include "controller/access/audit_log.h"

#include <sys/stat.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "sdk/common/rpc/error.h"

namespace baton::access {
namespace {

class AuditLogTest : public ::testing::Test {
 protected:
  AuditLogTest() {
    options_.path = ::testing::TempDir() + "audit.log";
    options_.refusals_path = ::testing::TempDir() + "refusals.log";
    std::remove(options_.path.c_str());
    std::remove(options_.refusals_path.c_str());
  }
  static std::vector<nlohmann::json> Lines(const std::string& path) {
    std::ifstream in(path);
    std::vector<nlohmann::json> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }
  static AuditEntry Refused(absl::Time time) {
    return {time,
            "unknown",
            "ipv4:127.0.0.1:6",
            "JobService.DeleteJob",
            "x",
            MakeError(absl::StatusCode::kUnauthenticated, "TOKEN", "no")};
  }

  AuditOptions options_;
  const absl::Time time_ = absl::FromUnixSeconds(0);
};

TEST_F(AuditLogTest, OneObjectALine) {
  auto log = AuditLog::Open(options_);
  ASSERT_TRUE(log.ok()) << log.status();
  (*log)->Write({time_, "abc", "ipv4:127.0.0.1:5", "JobService.CreateJob", "a\"b", {}});
  (*log)->Write({time_, "anyone", "ipv4:127.0.0.1:6", "JobService.DeleteJob", "x",
                 MakeError(absl::StatusCode::kPermissionDenied, "SCOPE", "no")});
  (*log)->Flush();
  const auto lines = Lines(options_.path);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["time"], "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(lines[0]["caller"], "abc");
  EXPECT_EQ(lines[0]["resource"], "a\"b");
  EXPECT_EQ(lines[0]["code"], "OK");
  EXPECT_EQ(lines[1]["reason"], "SCOPE");
  EXPECT_EQ(lines[1]["code"], "PERMISSION_DENIED");
  struct stat info = {};
  ASSERT_EQ(::stat(options_.path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0600u);
}

TEST_F(AuditLogTest, FilesThatWereMovedAwayAreOpenedAnew) {
  auto log = AuditLog::Open(options_).value();
  const auto write = [&](const char* job) {
    log->Write({time_, "abc", "p", "JobService.CreateJob", job, {}});
    log->WriteUnknown(Refused(time_));
    log->Flush();
  };
  write("a");
  for (const std::string& path : {options_.path, options_.refusals_path}) {
    ASSERT_EQ(std::rename(path.c_str(), (path + ".moved").c_str()), 0);
  }
  write("b");
  log->Reopen();
  write("c");
  const auto moved = Lines(options_.path + ".moved"), now = Lines(options_.path);
  ASSERT_EQ(moved.size(), 2u);
  EXPECT_EQ(moved[1]["resource"], "b");
  ASSERT_EQ(now.size(), 1u);
  EXPECT_EQ(now[0]["resource"], "c");
  EXPECT_EQ(Lines(options_.refusals_path + ".moved").size(), 2u);
  EXPECT_EQ(Lines(options_.refusals_path).size(), 1u);
  struct stat info = {};
  ASSERT_EQ(::stat(options_.path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0600u);
}

TEST_F(AuditLogTest, RefusalsOfTheUnknownHaveAFileAndARateOfTheirOwn) {
  options_.refusals_per_second = 10;
  options_.refusals_burst = 5;
  auto log = AuditLog::Open(options_).value();
  for (int i = 0; i < 1000; ++i) log->WriteUnknown(Refused(time_ + absl::Seconds(1000)));
  log->Write({time_, "abc", "p", "JobService.CreateJob", "j", {}});
  log->WriteUnknown(Refused(time_ + absl::Seconds(1000) + absl::Milliseconds(100)));
  log->WriteUnknown(Refused(time_ + absl::Seconds(1000) + absl::Milliseconds(200)));
  log->Flush();
  EXPECT_EQ(Lines(options_.path).size(), 1u);
  const auto refusals = Lines(options_.refusals_path);
  ASSERT_EQ(refusals.size(), 7u);
  EXPECT_EQ(refusals[4].count("suppressed_before"), 0u);
  EXPECT_EQ(refusals[5]["suppressed_before"], 995);
  EXPECT_EQ(refusals[6].count("suppressed_before"), 0u) << "they are told once";
}

TEST_F(AuditLogTest, CountsEntriesDroppedWhenTheQueueIsFull) {
  options_.max_waiting = 10;
  auto log = AuditLog::Open(options_).value();
  constexpr int kEntries = 20'000;
  for (int i = 0; i < kEntries; ++i) log->Write({time_, "abc", "p", "m", "j", {}});
  log.reset();  // all is written
  int64_t told = 0;
  for (const nlohmann::json& line : Lines(options_.path)) {
    told += line.count("dropped") > 0 ? line["dropped"].get<int64_t>() : 1;
  }
  EXPECT_EQ(told, kEntries);
}

TEST_F(AuditLogTest, AFileThatCannotBeWrittenIsAnError) {
  std::ofstream(options_.refusals_path) << "a file, no folder";
  options_.path = options_.refusals_path + "/audit.log";
  EXPECT_EQ(AuditLog::Open(options_).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace baton::access
