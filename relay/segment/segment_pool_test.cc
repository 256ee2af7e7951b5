#include "relay/segment/segment_pool.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "relay/weights/mapped_file.h"
#include "sdk/common/base/test_folder.h"

namespace baton::relay {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class SegmentPoolTest : public ::testing::Test {
 protected:
  std::unique_ptr<SegmentPool> MakePool(uint64_t max_bytes = 0) {
    auto pool = SegmentPool::Create({dir_.path(), "seg", max_bytes});
    EXPECT_TRUE(pool.ok()) << pool.status();
    return *std::move(pool);
  }

  std::vector<std::string> Files(const std::string& suffix = "") const {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
      const std::string name = entry.path().filename();
      if (name.size() >= suffix.size() &&
          name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0) {
        files.push_back(name);
      }
    }
    return files;
  }

  const TestFolder dir_;
};

TEST_F(SegmentPoolTest, FilesHaveTheSizeAskedForAndGoWithTheirOwner) {
  {
    auto pool = MakePool();
    auto file = pool->Allocate(10000).value();
    EXPECT_EQ(std::filesystem::file_size(file->path()), 10000u);
    EXPECT_THAT(file->path(), HasSubstr("/seg-" + pool->instance() + "-1.safetensors"));
    file->bytes()[9999] = 42;
    EXPECT_EQ(MappedFile::Open(file->path())->bytes()[9999], 42);
    EXPECT_EQ(pool->used_bytes(), 10000u);
    pool->Recycle(std::move(file));
    EXPECT_EQ(pool->used_bytes(), 10000u) << "recycled memory stays reserved";
  }
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(SegmentPoolTest, ARecycledFileIsUsedAgainUnderANewName) {
  auto pool = MakePool();
  auto file = pool->Allocate(8192).value();
  const std::string old_path = file->path();
  const uint8_t* const data = file->bytes().data();
  pool->Recycle(std::move(file));
  auto again = pool->Allocate(8192).value();
  EXPECT_EQ(again->bytes().data(), data) << "the same mapping, faulted in already";
  EXPECT_NE(again->path(), old_path);
  EXPECT_FALSE(std::filesystem::exists(old_path));
  EXPECT_THAT(Files(".safetensors"), SizeIs(1));
}

TEST_F(SegmentPoolTest, ALargerRecycledFileIsShortened) {
  auto pool = MakePool();
  pool->Recycle(pool->Allocate(8192).value());
  auto file = pool->Allocate(5000).value();
  EXPECT_EQ(std::filesystem::file_size(file->path()), 5000u);
  EXPECT_EQ(file->bytes().size(), 5000u);
  EXPECT_EQ(pool->used_bytes(), 5000u);
  EXPECT_THAT(Files(".safetensors"), SizeIs(1));
  pool->Recycle(std::move(file));
  auto larger = pool->Allocate(6000).value();
  EXPECT_EQ(std::filesystem::file_size(larger->path()), 6000u) << "a file does not grow";
  pool->Discard(std::move(larger));
  EXPECT_EQ(pool->used_bytes(), 5000u);
}

TEST_F(SegmentPoolTest, TheSmallestThatIsLargeEnoughIsUsedAgain) {
  auto pool = MakePool();
  std::vector<std::unique_ptr<SharedFile>> files;
  for (const uint64_t size : {9000, 6000, 8000}) files.push_back(pool->Allocate(size).value());
  const uint8_t* const middle = files[1]->bytes().data();
  for (auto& file : files) pool->Recycle(std::move(file));
  EXPECT_EQ(pool->Allocate(5000).value()->bytes().data(), middle);
}

TEST_F(SegmentPoolTest, TooLargeIsAnErrorBeforeAnythingIsTouched) {
  auto pool = MakePool(/*max_bytes=*/10000);
  auto held = pool->Allocate(4000).value();
  pool->Recycle(pool->Allocate(4000).value());
  const auto refused = pool->Allocate(6001);
  ASSERT_TRUE(absl::IsResourceExhausted(refused.status())) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("6001 bytes does not fit"));
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("6000 bytes are free"));
  EXPECT_THAT(Files(".safetensors"), SizeIs(2)) << "the recycled file was not given up in vain";
  EXPECT_TRUE(pool->CheckFits(6001, 1).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(pool->CheckFits(6003, 1)));
  auto fits = pool->Allocate(6000);
  ASSERT_TRUE(fits.ok()) << fits.status();
  EXPECT_EQ(pool->free_bytes(), 0u);
}

TEST_F(SegmentPoolTest, DistinguishesNeverFittingFromNotFittingNow) {
  auto pool = MakePool(/*max_bytes=*/10000);
  auto held = pool->Allocate(9000).value();
  EXPECT_TRUE(pool->CheckCapacity(10000, 0).ok()) << "once the other one is gone";
  EXPECT_TRUE(pool->CheckCapacity(4000, 6000).ok());
  const absl::Status alone = pool->CheckCapacity(10001, 0);
  EXPECT_TRUE(absl::IsOutOfRange(alone)) << alone;
  EXPECT_THAT(std::string(alone.message()), HasSubstr("enlarge --max-bytes"));
  const absl::Status beside = pool->CheckCapacity(4001, 6000);
  EXPECT_TRUE(absl::IsOutOfRange(beside)) << beside;
  EXPECT_THAT(std::string(beside.message()),
              HasSubstr("beside those that the job keeps (6000 bytes)"));
  EXPECT_TRUE(absl::IsOutOfRange(pool->CheckCapacity(~uint64_t{0}, ~uint64_t{0})));
  const absl::Status system = MakePool()->CheckCapacity(uint64_t{1} << 60, 0);
  EXPECT_TRUE(absl::IsOutOfRange(system)) << "more than any file system has: " << system;
  EXPECT_THAT(std::string(system.message()), HasSubstr("--shm-size"));
}

TEST_F(SegmentPoolTest, MoreThanTheDirectoryHoldsIsRefusedAtStart) {
  const auto refused = SegmentPool::Create({dir_.path(), "seg", uint64_t{1} << 62});
  ASSERT_TRUE(absl::IsResourceExhausted(refused.status())) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("--max-bytes"));
  EXPECT_THAT(Files(), IsEmpty());
  EXPECT_TRUE(absl::IsNotFound(SegmentPool::Create({dir_.path("none"), "seg"}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(SegmentPool::Create({dir_.path(), "a/b"}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(SegmentPool::Create({dir_.path(), ""}).status()));
}

TEST_F(SegmentPoolTest, ReservingMoreThanThereIsLeavesNothingBehind) {
  // Asked of the system itself, past the pool's own check: 1 EiB is more than any file system has.
  const auto refused = SharedFile::Create(dir_.path("huge"), uint64_t{1} << 60);
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status())) << refused.status();
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(SegmentPoolTest, OrphansOfDeadInstancesAreRemovedAndNoOthers) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {  // A pool that is killed with a segment of 4096 bytes.
    auto pool = SegmentPool::Create({dir_.path(), "seg"});
    auto file = pool.ok() ? (*pool)->Allocate(4096) : pool.status();
    char ok = file.ok() ? 1 : 0;
    if (write(ready[1], &ok, 1) != 1) _exit(1);
    pause();
  }
  char ok = 0;
  ASSERT_EQ(read(ready[0], &ok, 1), 1);
  ASSERT_EQ(ok, 1);
  for (const char* foreign : {"seg-notours.safetensors", "seg-other-0123456789ab-1.safetensors",
                              "seg-0123456789ab-1.bin", "other-0123456789ab-1.safetensors"}) {
    dir_.Write(foreign, "x");
  }
  dir_.Write("seg-0123456789ab-7.safetensors", "without a lock");
  auto alive = MakePool();
  EXPECT_THAT(alive->orphans_removed(), SizeIs(1)) << "the child lives, so its segment stays";
  EXPECT_THAT(Files(".safetensors"), SizeIs(4));

  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  auto mine = alive->Allocate(100).value();
  auto next = MakePool();
  EXPECT_THAT(next->orphans_removed(), SizeIs(2)) << "the dead child's segment and its lock";
  EXPECT_TRUE(std::filesystem::exists(mine->path()));
  EXPECT_THAT(Files(".safetensors"), SizeIs(4)) << "three foreign files and the living pool's";
  EXPECT_THAT(Files(".lock"), SizeIs(2));
  close(ready[0]);
  close(ready[1]);
}

TEST_F(SegmentPoolTest, ADiscardedFileStaysReadableForThoseWhoMappedIt) {
  auto pool = MakePool();
  auto file = pool->Allocate(4096).value();
  file->bytes()[0] = 7;
  const auto reader = MappedFile::Open(file->path()).value();
  pool->Discard(std::move(file));
  auto next = pool->Allocate(4096).value();
  next->bytes()[0] = 8;
  EXPECT_EQ(reader.bytes()[0], 7);
}

}  // namespace
}  // namespace baton::relay
