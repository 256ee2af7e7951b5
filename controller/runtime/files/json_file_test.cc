#include "controller/runtime/files/json_file.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "baton/store/v1/rows.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/base/test_folder.h"

namespace baton::controller {
namespace {

using ::testing::HasSubstr;

TEST(JsonFileTest, ReadsWhatItWritesAndPassesOverLaterFields) {
  const TestFolder folder;
  store::v1::JobRow row;
  row.mutable_job()->set_name("projects/p/jobs/j");
  row.set_next_serial(7);
  const auto text = JsonText(row);
  ASSERT_TRUE(text.ok()) << text.status();
  folder.Write("row.json", absl::StrCat("{\"of_a_later_release\": 1,", text->substr(1)));
  store::v1::JobRow read;
  ASSERT_TRUE(ReadJsonFile(folder.path("row.json"), &read).ok());
  EXPECT_EQ(read.SerializeAsString(), row.SerializeAsString());
}

TEST(JsonFileTest, ValuesAreCountedOutsideOfStrings) {
  EXPECT_EQ(CountJsonValues("{}"), 1u);
  EXPECT_EQ(CountJsonValues(R"({"a": [1, 2, 3], "b": "[,,,{"})"), 5u);
  EXPECT_EQ(CountJsonValues(R"({"a\",": "\\", "b": ",\"[,"})"), 2u);
  EXPECT_EQ(CountJsonValues("\"never closed [[[,,,\\"), 0u);
}

TEST(JsonFileTest, RefusesOversizedJsonBeforeReadingIt) {
  const TestFolder folder;
  store::v1::JobRow row;
  EXPECT_EQ(ReadJsonFile(folder.path("none.json"), &row).code(), absl::StatusCode::kNotFound);
  folder.Write("holes.json", "{}");
  std::filesystem::resize_file(folder.path("holes.json"), uint64_t{1} << 40);
  absl::Status read = ReadJsonFile(folder.path("holes.json"), &row);
  EXPECT_EQ(read.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(read.message()), HasSubstr("1099511627776 bytes"));

  std::filesystem::resize_file(folder.path("holes.json"), kMostJsonBytes + 1);
  EXPECT_THAT(std::string(ReadJsonFile(folder.path("holes.json"), &row).message()),
              HasSubstr("67108865 bytes, more than 67108864"));

  std::string many = "{\"slots\": [{}";
  for (uint64_t i = 0; i < kMostJsonValues; ++i) many += ",{}";
  folder.Write("many.json", many + "]}");
  read = ReadJsonFile(folder.path("many.json"), &row);
  EXPECT_EQ(read.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(read.message()), HasSubstr("values"));

  std::filesystem::create_directory(folder.path("folder.json"));
  EXPECT_EQ(ReadJsonFile(folder.path("folder.json"), &row).code(), absl::StatusCode::kDataLoss);
  ASSERT_EQ(::mkfifo(folder.path("pipe.json").c_str(), 0600), 0);
  EXPECT_EQ(ReadJsonFile(folder.path("pipe.json"), &row).code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace baton::controller
