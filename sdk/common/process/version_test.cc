#include "sdk/common/process/version.h"

#include <regex>
#include <string>

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(VersionTest, IsThatOfTheProject) {
  const std::string version(Version()), commit(Commit());
  EXPECT_TRUE(std::regex_match(version, std::regex("[0-9]+\\.[0-9]+\\.[0-9]+"))) << version;
  EXPECT_TRUE(std::regex_match(commit, std::regex("[0-9a-f]{12}|"))) << commit;
  EXPECT_EQ(VersionLine("baton-relay"),
            commit.empty() ? "baton-relay " + version
                           : "baton-relay " + version + " (commit " + commit + ")");
}

}  // namespace
}  // namespace baton
