#include "controller/access/audit_log.h"

#include <fstream>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "sdk/rpc/error.h"

namespace baton::access {
namespace {

TEST(AuditLogTest, OneObjectALine) {
  const std::string path = ::testing::TempDir() + "audit.log";
  std::remove(path.c_str());
  auto log = AuditLog::Open(path);
  ASSERT_TRUE(log.ok()) << log.status();
  const absl::Time time = absl::FromUnixSeconds(0);
  (*log)->Write({time, "abc", "ipv4:127.0.0.1:5", "JobService.CreateJob", "a\"b", {}});
  (*log)->Write({time, "anyone", "ipv4:127.0.0.1:6", "JobService.DeleteJob", "x",
                 MakeError(absl::StatusCode::kPermissionDenied, "SCOPE", "no")});
  std::ifstream in(path);
  std::string line;
  ASSERT_TRUE(std::getline(in, line));
  auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json["time"], "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(json["caller"], "abc");
  EXPECT_EQ(json["resource"], "a\"b");
  EXPECT_EQ(json["code"], "OK");
  ASSERT_TRUE(std::getline(in, line));
  json = nlohmann::json::parse(line);
  EXPECT_EQ(json["reason"], "SCOPE");
  EXPECT_EQ(json["code"], "PERMISSION_DENIED");
}

}  // namespace
}  // namespace baton::access
