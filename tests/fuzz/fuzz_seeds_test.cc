// Each input of tests/fuzz/corpus runs through its fuzz target once, without the fuzzer.
//
// A target ends the process when a rule is broken. So the path of each seed is written before the
// seed runs, and the last path in the output is that of the seed that failed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

// The functions of libFuzzer's interface, as the build names them. Not every target has the first.
#define FUZZ_TARGET(name)                                                          \
  extern "C" __attribute__((weak)) int name##_initialize(int* argc, char*** argv); \
  extern "C" int name##_one_input(const uint8_t* data, size_t size);
#include "fuzz_targets.inc"
#undef FUZZ_TARGET

namespace {

namespace fs = std::filesystem;

struct FuzzTarget {
  const char* name;
  int (*initialize)(int* argc, char*** argv);  ///< Null: the target needs none.
  int (*one_input)(const uint8_t* data, size_t size);
};

#define FUZZ_TARGET(name) {#name, name##_initialize, name##_one_input},
const FuzzTarget kTargets[] = {
#include "fuzz_targets.inc"
};
#undef FUZZ_TARGET

std::vector<std::string> SeedsOf(const char* target) {
  const char* root = std::getenv("BATON_SOURCE_DIR");
  const fs::path folder = fs::path(root != nullptr ? root : ".") / "tests/fuzz/corpus" / target;
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

class FuzzSeedsTest : public ::testing::TestWithParam<FuzzTarget> {};

TEST_P(FuzzSeedsTest, TargetTakesEachSeed) {
  const FuzzTarget& target = GetParam();
  if (target.initialize != nullptr) {
    int argc = 0;
    char** argv = nullptr;
    ASSERT_EQ(target.initialize(&argc, &argv), 0);
  }
  const std::vector<std::string> seeds = SeedsOf(target.name);
  EXPECT_FALSE(seeds.empty());
  for (const std::string& path : seeds) {
    std::fprintf(stderr, "%s\n", path.c_str());
    std::ifstream in(path, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    ASSERT_TRUE(in) << "cannot read " << path;
    // Memory of exactly this size: a sanitizer notices a read behind the end.
    const auto bytes = std::make_unique<uint8_t[]>(text.size());
    std::copy(text.begin(), text.end(), bytes.get());
    EXPECT_EQ(target.one_input(bytes.get(), text.size()), 0) << path;
  }
}

INSTANTIATE_TEST_SUITE_P(AllTargets, FuzzSeedsTest, ::testing::ValuesIn(kTargets),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
