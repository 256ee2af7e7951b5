#include "controller/experience/experience_log.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include <sys/resource.h>
#include <unistd.h>
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/base/log.h"
#include "sdk/common/base/test_syncs.h"

namespace baton::experience {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::HasSubstr;

// Says that no file is needed.
constexpr auto kNoFile = [](uint32_t) { return false; };

class ExperienceLogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "experience_" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    Open();
  }

  void Open() {
    log_.reset();
    auto log = ExperienceLog::Open(folder_);
    ASSERT_TRUE(log.ok()) << log.status();
    log_ = *std::move(log);
  }

  Location MustAppend(const std::string& payload) {
    auto at = log_->Append(payload);
    EXPECT_TRUE(at.ok()) << at.status();
    return at.ok() ? *at : Location();
  }

  std::string File(uint32_t number) const {
    char name[32];
    std::snprintf(name, sizeof name, "/%08u.log", number);
    return folder_ + name;
  }

  void Overwrite(const std::string& path, uint64_t offset, char byte) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(byte);
  }

  std::string folder_;
  std::unique_ptr<ExperienceLog> log_;
};

TEST_F(ExperienceLogTest, ReadsBackWhatItAppended) {
  std::string binary;
  for (int i = 0; i < 1000; ++i) binary.push_back(static_cast<char>(i * 31));
  const Location first = MustAppend("one");
  const Location empty = MustAppend("");
  const Location last = MustAppend(binary);
  EXPECT_EQ(*log_->Read(first), "one");
  EXPECT_EQ(*log_->Read(empty), "");
  EXPECT_EQ(*log_->Read(last), binary);
  EXPECT_EQ(first.file, 1u);
  EXPECT_EQ(first.size, 3u);
  EXPECT_TRUE(log_->Sync().ok());
  Open();
  EXPECT_EQ(*log_->Read(last), binary);
}

// magic "BEX1", length, XXH3-64 of the payload (the published value for "" seed 0 is
// 0x2d06800538d394c2), all little-endian.
TEST_F(ExperienceLogTest, TheFrameIsAsDocumented) {
  MustAppend("");
  std::ifstream in(File(1), std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(in), {});
  EXPECT_EQ(bytes, std::string("BEX1\0\0\0\0\xc2\x94\xd3\x38\x05\x80\x06\x2d", 16));
}

// Every length that a crash during the write of the second record can leave, and every length that
// a power cut can leave of both.
TEST_F(ExperienceLogTest, ATornTailBeginsANewFile) {
  const Location first = MustAppend("first");
  const Location second = MustAppend("second");
  const auto whole = fs::file_size(File(1));
  for (uint64_t size = whole - 1; size > 0; --size) {
    fs::resize_file(File(1), size);
    Open();
    const Location again = MustAppend("second");
    EXPECT_EQ(again.file, 2u);
    EXPECT_EQ(again.offset, 0u);
    EXPECT_EQ(fs::file_size(File(1)), size) << "what is there stays as it is";
    EXPECT_EQ(*log_->Read(again), "second");
    EXPECT_EQ(log_->Read(second).status().code(), absl::StatusCode::kOutOfRange) << size;
    const auto kept = log_->Read(first);
    EXPECT_EQ(kept.ok(), size >= second.offset) << size;
    fs::remove(File(2));
  }
}

// A file that lost whole records looks like one that never had them, but rows may name them.
TEST_F(ExperienceLogTest, NeverReusesALocation) {
  const Location first = MustAppend("first");
  const Location lost = MustAppend("lost!!");
  fs::resize_file(File(1), lost.offset);
  Open();
  const Location next = MustAppend("others");
  EXPECT_EQ(*log_->Read(first), "first");
  EXPECT_EQ(*log_->Read(next), "others");
  EXPECT_EQ(log_->Read(lost).status().code(), absl::StatusCode::kOutOfRange);
}

TEST_F(ExperienceLogTest, BlocksThatNeverReachedTheDiskAreDataLoss) {
  const Location at = MustAppend("payload");
  std::ofstream(File(1), std::ios::binary) << std::string(16 + 7, '\0');
  Open();
  EXPECT_EQ(log_->Read(at).status().code(), absl::StatusCode::kDataLoss);
}

// A power cut between two blocks of the disk: the file has its length, and zeros from any byte of
// the last record's header on.
TEST_F(ExperienceLogTest, AHeaderOverTwoBlocksThatLostTheSecondIsDataLoss) {
  constexpr uint64_t kBlock = 4096;
  const std::string zeros(100, '\0');
  for (uint64_t in_first = 1; in_first < 16; ++in_first) {
    fs::remove(File(1));
    Open();
    const Location before = MustAppend(std::string(kBlock - in_first - 16, 'x'));
    const Location torn = MustAppend(zeros);
    ASSERT_EQ(torn.offset, kBlock - in_first);
    const auto size = fs::file_size(File(1));
    fs::resize_file(File(1), kBlock);
    fs::resize_file(File(1), size);
    Open();
    EXPECT_EQ(log_->Read(torn).status().code(), absl::StatusCode::kDataLoss) << in_first;
    EXPECT_EQ(log_->Read(before)->size(), before.size);
  }
}

TEST_F(ExperienceLogTest, OpeningAndReadingMakeNoFile) {
  const Location at = MustAppend("payload");
  for (int i = 0; i < 3; ++i) {
    Open();
    EXPECT_EQ(*log_->Read(at), "payload");
    EXPECT_TRUE(log_->Sync().ok());
  }
  EXPECT_FALSE(fs::exists(File(2)));
}

TEST_F(ExperienceLogTest, AChangedByteIsDataLoss) {
  const Location at = MustAppend("payload");
  MustAppend("next");
  for (uint64_t byte = 0; byte < 16 + 7; ++byte) {
    if (byte >= 4 && byte < 8) continue;  // the length has a test of its own
    std::ifstream in(File(1), std::ios::binary);
    in.seekg(static_cast<std::streamoff>(at.offset + byte));
    const char before = static_cast<char>(in.get());
    Overwrite(File(1), at.offset + byte, static_cast<char>(before ^ 1));
    EXPECT_EQ(log_->Read(at).status().code(), absl::StatusCode::kDataLoss) << byte;
    Overwrite(File(1), at.offset + byte, before);
    EXPECT_EQ(*log_->Read(at), "payload");
  }
}

TEST_F(ExperienceLogTest, ADamagedRecordDoesNotAffectOthers) {
  const Location damaged = MustAppend("payload");
  const Location next = MustAppend("next");
  for (const uint64_t byte : {0, 9, 17}) {  // magic, checksum, payload
    std::ifstream in(File(1), std::ios::binary);
    in.seekg(static_cast<std::streamoff>(damaged.offset + byte));
    const char before = static_cast<char>(in.get());
    Overwrite(File(1), damaged.offset + byte, static_cast<char>(before ^ 1));
    Open();
    EXPECT_EQ(log_->Read(damaged).status().code(), absl::StatusCode::kDataLoss) << byte;
    auto kept = log_->Read(next);
    ASSERT_TRUE(kept.ok()) << kept.status();
    EXPECT_EQ(*kept, "next");
    const Location later = MustAppend("later");
    EXPECT_EQ(later.file, 2u);
    EXPECT_EQ(*log_->Read(later), "later");
    Overwrite(File(1), damaged.offset + byte, before);
    fs::remove(File(2));
  }
}

TEST_F(ExperienceLogTest, RefusesARecordWithAWrongLength) {
  const Location at = MustAppend("payload");
  Overwrite(File(1), at.offset + 7, '\x7f');  // 2 GB
  EXPECT_EQ(log_->Read(at).status().code(), absl::StatusCode::kDataLoss);
  Overwrite(File(1), at.offset + 7, 0);
  Overwrite(File(1), at.offset + 5, 1);  // 65 kB more than there are
  EXPECT_EQ(log_->Read(at).status().code(), absl::StatusCode::kOutOfRange);
}

// A length that leads past the end of the file looks like a record that was never finished.
TEST_F(ExperienceLogTest, ADamagedLengthDoesNotAffectOtherRecords) {
  const Location damaged = MustAppend("payload");
  MustAppend(std::string(3 << 20, 'x'));
  const Location last = MustAppend("last");
  Overwrite(File(1), damaged.offset + 6, '\x7f');  // 8 MB more than there are
  Open();
  EXPECT_EQ(log_->Read(damaged).status().code(), absl::StatusCode::kOutOfRange);
  auto kept = log_->Read(last);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(*kept, "last");
  const Location later = MustAppend("later");
  EXPECT_EQ(later.file, 2u);
  EXPECT_EQ(*log_->Read(later), "later");
}

TEST_F(ExperienceLogTest, IgnoresForeignFilesInItsFolder) {
  const Location first = MustAppend("first");
  for (const char* name : {"7.log", "+0000008.log", "00000000.log", "00000009.log.tmp"}) {
    std::ofstream(folder_ + "/" + name) << "stray";
  }
  Open();
  EXPECT_EQ(*log_->Read(first), "first");
  EXPECT_EQ(MustAppend("second").file, 2u);
  EXPECT_TRUE(log_->DropFiles(100, kNoFile).ok());
  EXPECT_TRUE(fs::exists(folder_ + "/7.log"));
}

TEST_F(ExperienceLogTest, WrongLocationsAreErrors) {
  const Location at = MustAppend("payload");
  EXPECT_EQ(log_->Read({7, 0, 3}).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(log_->Read({1, 1000, 3}).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(log_->Read({1, at.offset + 1, 3}).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(log_->Read({1, at.offset, 3}).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(ExperienceLogTest, RollsOverAndDropsOldFiles) {
  const std::string big(33 << 20, 'x');
  const Location first = MustAppend(big);
  MustAppend(big);  // past 64 MB: the next begins a file
  const Location third = MustAppend("small");
  EXPECT_EQ(first.file, 1u);
  EXPECT_EQ(third.file, 2u);
  EXPECT_EQ(third.offset, 0u);
  EXPECT_TRUE(log_->DropFiles(1, kNoFile).ok());
  EXPECT_TRUE(log_->Read(first).ok());
  EXPECT_TRUE(log_->DropFiles(2, [](uint32_t file) { return file == 1; }).ok());
  EXPECT_TRUE(log_->Read(first).ok()) << "it is needed";
  EXPECT_TRUE(log_->DropFiles(2, kNoFile).ok());
  EXPECT_EQ(log_->Read(first).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(*log_->Read(third), "small");
  // The newest file stays, whatever is asked.
  EXPECT_TRUE(log_->DropFiles(100, kNoFile).ok());
  EXPECT_EQ(*log_->Read(third), "small");
  Open();
  EXPECT_TRUE(log_->DropFiles(100, kNoFile).ok());  // nor is the newest of an earlier run
  EXPECT_EQ(*log_->Read(third), "small");
  EXPECT_EQ(MustAppend("next").file, 3u);
}

// Sync looks only at the newest file, so the file before it must be on the disk when the newest
// begins.
TEST_F(ExperienceLogTest, SyncsAFileBeforeTheNextBegins) {
  TestSyncs::Take();
  MustAppend("first");
  EXPECT_THAT(TestSyncs::Take(), ::testing::ElementsAre(folder_)) << "the file's name";
  MustAppend(std::string(65 << 20, 'x'));
  MustAppend("next");
  EXPECT_THAT(TestSyncs::Take(), ::testing::ElementsAre(File(1), folder_));
  ASSERT_TRUE(log_->Sync().ok());
  EXPECT_THAT(TestSyncs::Take(), ::testing::ElementsAre(File(2)));
}

TEST_F(ExperienceLogTest, AFullDiskChangesNothing) {
  const Location first = MustAppend("first");
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit limit{4096, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &limit);
  const auto refused = log_->Append(std::string(100'000, 'x'));
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_FALSE(refused.ok());
  EXPECT_EQ(fs::file_size(File(1)), first.offset + 16 + 5) << "no half of a record";
  EXPECT_EQ(*log_->Read(first), "first");
  const Location next = MustAppend("next");
  EXPECT_EQ(next.offset, first.offset + 16 + 5);
  EXPECT_EQ(*log_->Read(next), "next");
  Open();
  EXPECT_EQ(*log_->Read(next), "next");
}

TEST_F(ExperienceLogTest, ThreadsMayAppendAndReadAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      for (int i = 0; i < 100; ++i) {
        const std::string payload(random() % 3000, static_cast<char>('a' + t));
        const Location at = MustAppend(payload);
        EXPECT_EQ(*log_->Read(at), payload);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// While this object lives, the process may not read files that only root may read.
class Unprivileged {
 public:
  Unprivileged() : was_(geteuid()) {
    if (was_ == 0) EXPECT_EQ(seteuid(65534), 0);
  }
  ~Unprivileged() {
    if (was_ == 0) EXPECT_EQ(seteuid(was_), 0);
  }

 private:
  const uid_t was_;
};

TEST_F(ExperienceLogTest, ReportsAnUnreadableFileAsUnavailable) {
  const Location at = MustAppend("one");
  fs::permissions(File(1), fs::perms::none);
  {
    const Unprivileged user;
    const absl::Status status = log_->Read(at).status();
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(File(1)), HasSubstr("Permission denied"), HasSubstr("let the")));
  }
  fs::permissions(File(1), fs::perms::owner_read);
  EXPECT_EQ(*log_->Read(at), "one");
  fs::permissions(folder_, fs::perms::none);
  {
    const Unprivileged user;
    EXPECT_TRUE(absl::IsUnavailable(log_->Read(at).status()));
  }
  fs::permissions(folder_, fs::perms::owner_all);
}

// The folder cannot be read; that says nothing about its contents.
TEST_F(ExperienceLogTest, AFolderThatMayNotBeReadIsNotLost) {
  fs::create_directories(folder_ + "/above/log");
  for (const char* closed : {"/above", "/above/log"}) {
    fs::permissions(folder_ + closed, fs::perms::none);
    {
      const Unprivileged user;
      const absl::Status status = ExperienceLog::Open(folder_ + "/above/log").status();
      EXPECT_TRUE(absl::IsUnavailable(status)) << closed << ": " << status;
    }
    fs::permissions(folder_ + closed, fs::perms::all);
  }
}

TEST(ExperienceLogOpenTest, AFolderThatIsNotThereIsAnError) {
  EXPECT_FALSE(ExperienceLog::Open(::testing::TempDir() + "no/such/folder").ok());
}

}  // namespace
}  // namespace baton::experience
