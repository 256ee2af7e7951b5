#include "sdk/common/contracts/check_protocol.h"

#include <string>

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(CheckProtocolTest, ARequestIsALine) {
  const std::string line = FormatCheckLine(CheckRequestLine{70, 540, 1000, "/data/a folder"});
  EXPECT_EQ(line, "check 70 540 1000 /data/a folder\n");
  const auto read = ParseCheckRequestLine("check 70 540 1000 /data/a folder");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->spec_bytes, 70u);
  EXPECT_EQ(read->cpu_seconds, 540);
  EXPECT_EQ(read->filtered_bytes, 1000u);
  EXPECT_EQ(read->folder, "/data/a folder");
  const auto without_folder = ParseCheckRequestLine("check 0 1 0 ");
  ASSERT_TRUE(without_folder.ok());
  EXPECT_EQ(without_folder->folder, "");
}

TEST(CheckProtocolTest, AResponseIsALine) {
  EXPECT_EQ(FormatCheckLine(CheckResponseLine{true, 12}), "found 12\n");
  EXPECT_EQ(FormatCheckLine(CheckResponseLine{false, 3}), "failed 3\n");
  const auto read = ParseCheckResponseLine("found 18446744073709551615");
  ASSERT_TRUE(read.ok());
  EXPECT_TRUE(read->found);
  EXPECT_EQ(read->bytes, 18446744073709551615u);
  EXPECT_FALSE(ParseCheckResponseLine("failed 3")->found);
}

TEST(CheckProtocolTest, OtherLinesAreRefused) {
  for (const char* line : {"", "check", "check 1 1 1", "check 67108865 1 1 /a", "check 1 0 1 /a",
                           "check -1 1 1 /a", "check 1 1 x /a", "found 1"}) {
    EXPECT_FALSE(ParseCheckRequestLine(line).ok()) << line;
  }
  for (const char* line : {"", "found", "found ", "found -1", "found 1 2", "lost 1"}) {
    EXPECT_FALSE(ParseCheckResponseLine(line).ok()) << line;
  }
}

}  // namespace
}  // namespace baton
