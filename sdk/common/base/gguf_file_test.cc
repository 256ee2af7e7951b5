#include "sdk/common/base/gguf_file.h"

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/base/test_folder.h"

namespace baton {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(GgufHint, NamesTheFileAndTheWayToConvertIt) {
  const TestFolder folder;
  const std::string file = folder.path("Tiny.Q4_1.GGUF");
  std::ofstream(file) << "GGUF";
  for (const std::string& path : {file, folder.path()}) {
    EXPECT_THAT(GgufHint(path), StartsWith(file + " is a GGUF file")) << path;
    EXPECT_THAT(GgufHint(path), HasSubstr("convert it"));
  }
  EXPECT_THAT(GgufHint("/no/such/model.gguf"), StartsWith("/no/such/model.gguf is a GGUF file"));
}

TEST(GgufHint, OtherPathsHaveNone) {
  const TestFolder folder;
  std::ofstream(folder.path("model.safetensors")) << "x";
  std::filesystem::create_directory(folder.path("named.gguf"));  // a folder, whatever its name
  EXPECT_EQ(GgufHint(folder.path("named.gguf")), "");
  EXPECT_EQ(GgufHint(folder.path("model.safetensors")), "");
  EXPECT_EQ(GgufHint("/no/such/model"), "");
  EXPECT_EQ(GgufHint(""), "");
}

}  // namespace
}  // namespace baton
