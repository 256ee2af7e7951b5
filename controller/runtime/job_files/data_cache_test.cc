#include "controller/runtime/job_files/data_cache.h"

#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/base/test_folder.h"

namespace baton::controller {
namespace {

using ::testing::HasSubstr;

class DataCacheTest : public ::testing::Test {
 protected:
  std::string WriteFile(const std::string& name, int lines) {
    std::string text;
    for (int i = 0; i < lines; ++i) absl::StrAppend(&text, R"({"prompt": ")", i, "\"}\n");
    folder_.Write(name, text);
    return folder_.path(name);
  }
  absl::StatusOr<std::shared_ptr<const DataSet>> Get(DataCache& cache, const std::string& path,
                                                     const DataSetOptions& options = {},
                                                     uint64_t own = 0) {
    return cache.Get({path}, options, own, [&] {
      ++reads_;
      return ReadDataSet({path}, options);
    });
  }

  const TestFolder folder_;
  int reads_ = 0;
};

TEST_F(DataCacheTest, JobsShareWhatTheyReadUntilTheLastOneDropsIt) {
  DataCache cache(1 << 20);
  const std::string path = WriteFile("a", 100);
  auto one = *Get(cache, path);
  EXPECT_EQ(one->examples.size(), 100u);
  EXPECT_EQ(cache.bytes(), one->memory_bytes);
  EXPECT_GE(one->memory_bytes, 100 * sizeof(Example));
  auto two = *Get(cache, path);
  EXPECT_EQ(one, two);
  EXPECT_EQ(reads_, 1);
  EXPECT_EQ(cache.bytes(), one->memory_bytes);
  // The same file, read in another way.
  DataSetOptions answered;
  answered.answer_uses.push_back({AnswerUse::Kind::kCompares, "spec.reward", {}});
  EXPECT_NE(*Get(cache, path, answered), one);
  EXPECT_EQ(reads_, 2);
  one = nullptr;
  EXPECT_GT(cache.bytes(), 0u);
  two = nullptr;
  EXPECT_EQ(cache.bytes(), 0u);
  EXPECT_EQ((*Get(cache, path))->examples.size(), 100u);
  EXPECT_EQ(reads_, 3);
}

TEST_F(DataCacheTest, AFileThatChangedIsReadAnew) {
  DataCache cache(1 << 20);
  const std::string path = WriteFile("a", 10);
  const auto before = *Get(cache, path);
  WriteFile("a", 11);
  EXPECT_EQ((*Get(cache, path))->examples.size(), 11u);
  EXPECT_EQ(before->examples.size(), 10u);
  // The file changes while it is read: the next call reads the new content.
  const std::string other = WriteFile("b", 5);
  const auto torn = *cache.Get({other}, {}, 0, [&] {
    DataSet read = ReadDataSet({other}, {});
    WriteFile("b", 6);
    return read;
  });
  EXPECT_EQ(torn->examples.size(), 5u);
  EXPECT_EQ((*Get(cache, other))->examples.size(), 6u);
  // A missing file: its problem is not cached, so it does not appear once the file exists.
  EXPECT_EQ((*Get(cache, folder_.path("none")))->problems.size(), 1u);
  WriteFile("none", 3);
  EXPECT_EQ((*Get(cache, folder_.path("none")))->examples.size(), 3u);
}

TEST_F(DataCacheTest, AllSetsTogetherHaveABound) {
  const std::string small = WriteFile("small", 10), large = WriteFile("large", 1000);
  const uint64_t bytes = ReadDataSet({large}, {}).memory_bytes;
  DataCache cache(bytes);
  auto held = *Get(cache, small);
  const absl::Status none = Get(cache, large).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(none.message(),
              HasSubstr(absl::StrCat("room for ", bytes,
                                     " bytes of examples in the controller's "
                                     "memory: those of other jobs take ",
                                     held->memory_bytes, ", and all together may take ", bytes)));
  EXPECT_EQ(cache.bytes(), held->memory_bytes);
  // The set's size is known from now on: another try reads nothing.
  EXPECT_EQ(reads_, 2);
  EXPECT_FALSE(Get(cache, large).ok());
  EXPECT_EQ(reads_, 2);
  // A set that the caller itself holds is no reason to wait: it would never be dropped.
  EXPECT_TRUE(Get(cache, large, {}, /*own=*/held->memory_bytes).ok());
  held = nullptr;
  EXPECT_TRUE(Get(cache, large).ok());
  EXPECT_EQ(cache.bytes(), 0u);
}

TEST_F(DataCacheTest, ThreadsThatWantTheSameReadItOnce) {
  DataCache cache(1 << 20);
  const std::string path = WriteFile("a", 100);
  std::promise<void> begun, go;
  std::shared_ptr<const DataSet> first, second;
  std::thread reader([&] {
    first = *cache.Get({path}, {}, 0, [&] {
      begun.set_value();
      go.get_future().wait();
      return ReadDataSet({path}, {});
    });
  });
  begun.get_future().wait();
  std::thread waiter([&] { second = *Get(cache, path); });
  go.set_value();
  reader.join();
  waiter.join();
  EXPECT_EQ(first, second);
  EXPECT_EQ(reads_, 0);
}

TEST_F(DataCacheTest, KeepsDataSetsInUseAndDropsForgottenOnes) {
  auto cache = std::make_unique<DataCache>(1 << 20);
  const std::string path = WriteFile("a", 3);
  const auto held = *Get(*cache, path);
  for (int i = 0; i < 3000; ++i) {
    DataSetOptions options;
    options.prompt_key = absl::StrCat("key", i);
    ASSERT_TRUE(Get(*cache, path, options).ok());
  }
  EXPECT_EQ(*Get(*cache, path), held) << "it is still known";
  cache = nullptr;
  EXPECT_EQ(held->examples.size(), 3u);
}

}  // namespace
}  // namespace baton::controller
