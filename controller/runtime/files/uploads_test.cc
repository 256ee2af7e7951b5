#include "controller/runtime/files/uploads.h"

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "baton/v1/job_service.pb.h"
#include "controller/runtime/files/named_uploads.h"
#include "controller/runtime/files/upload_path.h"
#include "controller/store/memory_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/base/test_folder.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Python: hashlib.sha256(b"abc").hexdigest(), the example of FIPS 180-4.
constexpr char kShaOfAbc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

class UploadsTest : public ::testing::Test {
 protected:
  UploadsTest() { Start(); }
  void Start() {
    uploads_ =
        std::make_unique<Uploads>(root_.path(), [this](const std::string&) { return limit_; });
    ASSERT_TRUE(uploads_->Open().ok());
  }
  absl::StatusOr<std::string> Put(const std::string& project, const std::string& name,
                                  const std::string& bytes) {
    const auto incoming = uploads_->Receive(project, name);
    if (const absl::Status added = incoming->Append(bytes); !added.ok()) return added;
    return incoming->Keep();
  }
  void Write(const std::string& path, const std::string& bytes) const { root_.Write(path, bytes); }
  std::string Read(const std::string& path) const { return root_.Read(path); }
  /// Without those that are in the trash.
  std::vector<std::string> Files() const {
    std::vector<std::string> out;
    for (const auto& entry : fs::recursive_directory_iterator(root_.path())) {
      const fs::path path = entry.path().lexically_relative(root_.path());
      if (entry.is_directory() || *path.begin() == "trash") continue;
      out.push_back(path.string());
    }
    return out;
  }

  const TestFolder root_;
  int64_t limit_ = 0;
  std::unique_ptr<Uploads> uploads_;
};

TEST_F(UploadsTest, EachProjectHasItsOwnByContent) {
  const std::string path = absl::StrCat("files/a/", kShaOfAbc, "/x.jsonl");
  EXPECT_EQ(*Put("a", "../dir/x.jsonl", "abc"), path);
  EXPECT_EQ(Read(path), "abc");
  EXPECT_EQ(*Put("a", "x.jsonl", "abc"), path);
  EXPECT_EQ(*Put("b", "x.jsonl", "abc"), absl::StrCat("files/b/", kShaOfAbc, "/x.jsonl"));
  EXPECT_EQ(Files().size(), 2u);
  // A second name of it, e.g. a checkpoint's, does not change with it.
  EXPECT_EQ(fs::status(root_.path(path)).permissions() & fs::perms(0222), fs::perms::none);
}

TEST_F(UploadsTest, RepairsADamagedUploadWhenItIsSentAgain) {
  const std::string path = *Put("a", "x", "abc");
  fs::remove(root_.path(path));
  Write(path, "abd");
  fs::create_hard_link(root_.path(path), root_.path("second"));
  EXPECT_EQ(*Put("a", "x", "abc"), path);
  EXPECT_EQ(Read(path), "abc");
  EXPECT_EQ(Read("second"), "abd");  // nothing is written through other names
}

TEST_F(UploadsTest, ALinkInItsPlaceIsReplacedAndNotFollowed) {
  Write("secret", "s");
  const std::string path = absl::StrCat("files/a/", kShaOfAbc, "/x");
  fs::create_directories(fs::path(root_.path(path)).parent_path());
  fs::create_symlink(root_.path("secret"), root_.path(path));
  EXPECT_EQ(*Put("a", "x", "abc"), path);
  EXPECT_FALSE(fs::is_symlink(root_.path(path)));
  EXPECT_EQ(Read("secret"), "s");
}

TEST_F(UploadsTest, AnAbandonedUploadLeavesNothing) {
  limit_ = 100'000;
  {
    const auto incoming = uploads_->Receive("a", "x");
    ASSERT_TRUE(incoming->Append(std::string(90'000, 'x')).ok());
    EXPECT_EQ(Files().size(), 1u);
  }
  EXPECT_THAT(Files(), IsEmpty());
  EXPECT_EQ(uploads_->UsedBytes("a"), 0);
  EXPECT_TRUE(Put("a", "y", std::string(90'000, 'y')).ok());
}

TEST_F(UploadsTest, RemovesPartialUploadsOfAnEarlierProcess) {
  Write("files/.upload-1-1", "half");
  Start();
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(UploadsTest, TheQuotaCountsWhatLiesOnTheDisk) {
  limit_ = 300'000;
  ASSERT_TRUE(Put("a", "one", std::string(200'000, '1')).ok());
  EXPECT_EQ(uploads_->UsedBytes("a"), 200'000);
  const absl::Status refused = Put("a", "two", std::string(100'001, '2')).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrorReason(refused), "QUOTA_UPLOADS");
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("project a take 200000 bytes of 300000"), HasSubstr("delete jobs"),
                    HasSubstr("baton project set a --max-upload-bytes")));
  EXPECT_TRUE(Put("b", "two", std::string(100'001, '2')).ok());  // another project's
  // A file of a byte takes a folder and a name too: 65,536.
  ASSERT_TRUE(Put("a", "tiny", "t").ok());
  EXPECT_EQ(uploads_->UsedBytes("a"), 265'536);
  EXPECT_EQ(ErrorReason(Put("a", "tiny2", "").status()), "QUOTA_UPLOADS");
  Start();  // a restart counts the same
  EXPECT_EQ(uploads_->UsedBytes("a"), 265'536);
  EXPECT_EQ(uploads_->UsedBytes("b"), 100'001);
  EXPECT_EQ(ErrorReason(Put("a", "tiny2", "").status()), "QUOTA_UPLOADS");
}

// `baton submit` uploads the same files each time.
TEST_F(UploadsTest, AcceptsAKnownUploadEvenIfTheQuotaIsUsedUp) {
  limit_ = 200'000;
  const std::string bytes(200'000, 'x');
  const std::string path = *Put("a", "x", bytes);
  EXPECT_EQ(*Put("a", "x", bytes), path);
  limit_ = 1000;  // lowered since
  EXPECT_EQ(*Put("a", "x", bytes), path);
  limit_ = 200'000;
  EXPECT_EQ(ErrorReason(Put("a", "x", std::string(200'000, 'y')).status()), "QUOTA_UPLOADS");
  EXPECT_EQ(ErrorReason(Put("a", "other", bytes).status()), "QUOTA_UPLOADS");  // another file
  EXPECT_EQ(uploads_->UsedBytes("a"), 200'000);
  EXPECT_EQ(Files().size(), 1u);
}

TEST_F(UploadsTest, FilesThatArriveTogetherDoNotPassTheQuotaTogether) {
  limit_ = 1'000'000;
  const auto first = uploads_->Receive("a", "1");
  ASSERT_TRUE(first->Append(std::string(600'000, '1')).ok());
  const auto second = uploads_->Receive("a", "2");
  ASSERT_TRUE(second->Append(std::string(400'000, '2')).ok());
  EXPECT_EQ(ErrorReason(second->Append("2")), "QUOTA_UPLOADS");
  EXPECT_TRUE(first->Keep().ok());
  EXPECT_TRUE(second->Keep().ok());  // its room was reserved

  limit_ = 2'000'000;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([this, i] {
      const auto incoming = uploads_->Receive("a", "same");
      for (int piece = 0; piece < 30; ++piece) {
        if (!incoming->Append(std::string(10'000, static_cast<char>('a' + i))).ok()) return;
      }
      incoming->Keep().IgnoreError();
    });
  }
  for (std::thread& thread : threads) thread.join();
  int64_t there = 0;
  for (const std::string& file : Files()) {
    there += static_cast<int64_t>(fs::file_size(root_.path(file)));
  }
  EXPECT_EQ(uploads_->UsedBytes("a"), there);
  EXPECT_LE(there, 2'000'000);
  // Nothing stays reserved: exactly the free bytes can be reserved, and no byte more.
  EXPECT_EQ(
      ErrorReason(
          Put("a", "rest", std::string(static_cast<size_t>(2'000'001 - there), 'r')).status()),
      "QUOTA_UPLOADS");
  EXPECT_TRUE(Put("a", "rest", std::string(static_cast<size_t>(2'000'000 - there), 'r')).ok());
}

TEST_F(UploadsTest, ReservesHeldQuotaUntilItIsReleased) {
  limit_ = 1'000'000;
  auto first = uploads_->Hold("a", 600'000);
  EXPECT_EQ(first->bytes(), 600'000u);
  auto second = uploads_->Hold("a", 600'000);
  EXPECT_EQ(second->bytes(), 400'000u);  // together they are not above the limit
  EXPECT_EQ(uploads_->Hold("a", 1)->bytes(), 0u);
  EXPECT_EQ(uploads_->Hold("b", 1)->bytes(), 1u);
  EXPECT_EQ(ErrorReason(Put("a", "x", std::string(1, 'x')).status()), "QUOTA_UPLOADS");
  second.reset();
  EXPECT_TRUE(Put("a", "x", std::string(100'000, 'x')).ok());
  first->Shrink(500'000);
  EXPECT_EQ(first->bytes(), 500'000u);
  first->Shrink(700'000);
  EXPECT_EQ(first->bytes(), 500'000u);
  EXPECT_EQ(uploads_->Hold("a", 1'000'000)->bytes(), 400'000u);
  limit_ = 0;
  EXPECT_EQ(uploads_->Hold("a", 1)->bytes(), std::numeric_limits<uint64_t>::max());
}

TEST_F(UploadsTest, ACopyUsesUpTheRoomThatWasHeldForIt) {
  limit_ = 1'000'000;
  Write("kept", std::string(600'000, 'k'));
  auto room = uploads_->Hold("a", 600'000);
  const auto others = uploads_->Receive("a", "others");
  ASSERT_TRUE(others->Append(std::string(400'000, 'o')).ok());
  EXPECT_EQ(ErrorReason(uploads_->Copy(root_.path("kept"), "a", "").status()), "QUOTA_UPLOADS");
  EXPECT_TRUE(uploads_->Copy(root_.path("kept"), "a", "", room.get()).ok());
  EXPECT_EQ(room->bytes(), 0u);
  room.reset();
  ASSERT_TRUE(others->Keep().ok());
  EXPECT_EQ(uploads_->UsedBytes("a"), 1'000'000);
  // There is no room, and the same content needs none.
  room = uploads_->Hold("a", 600'000);
  EXPECT_EQ(room->bytes(), 600'000u);
  EXPECT_TRUE(uploads_->Copy(root_.path("kept"), "a", "", room.get()).ok());
  room.reset();
  EXPECT_EQ(uploads_->UsedBytes("a"), 1'000'000);
}

TEST_F(UploadsTest, ACopyHasTheContentThatItsNameSays) {
  Write("kept/x.jsonl", "abc");
  const fs::path kept = root_.path("kept/x.jsonl");
  const std::string path = absl::StrCat("files/a/", kShaOfAbc, "/x.jsonl");
  for (const std::string hash : {kShaOfAbc, "0123"}) {
    EXPECT_EQ(*uploads_->Copy(kept, "a", hash), path) << hash;
  }
  EXPECT_FALSE(fs::equivalent(kept, root_.path(path)));  // nobody changes it through the other
  Write("kept/x.jsonl", "abd");
  const absl::Status refused = uploads_->Copy(kept, "b", kShaOfAbc).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kDataLoss) << refused;
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr(kept.string()), HasSubstr(kShaOfAbc)));
  EXPECT_FALSE(fs::exists(root_.path("files/b")));
  limit_ = 2;
  EXPECT_EQ(ErrorReason(uploads_->Copy(kept, "b", "").status()), "QUOTA_UPLOADS");
  EXPECT_FALSE(uploads_->Copy(root_.path("kept"), "a", "").ok());
  EXPECT_FALSE(uploads_->Copy(root_.path("none"), "a", "").ok());
}

class RemovalTest : public UploadsTest {
 protected:
  void Age(const std::string& path) const {
    fs::last_write_time(root_.path(path),
                        fs::file_time_type::clock::now() - std::chrono::hours(25));
  }
  int64_t Remove() {
    return uploads_->RemoveUnnamed(named_, absl::Now() - absl::Hours(24), [] { return false; })
        .files;
  }
  NamedUploads named_;
};

TEST_F(RemovalTest, RemovesOldUnnamedUploads) {
  const std::string named = *Put("a", "named", "1"), folder = *Put("a", "in-folder", "2"),
                    touched = *Put("a", "touched", "3"), again = *Put("a", "again", "4"),
                    young = *Put("a", "young", "5"), old = *Put("a", "old", "6"),
                    other = *Put("b", "old", "6");
  for (const std::string& path : {named, folder, touched, again, old, other}) Age(path);
  named_.AddPath(root_.path(named), root_.path());
  named_.AddPath(fs::path(folder).parent_path().string() + "/", root_.path());
  // A file that a call was told of after the search for names.
  EXPECT_TRUE(uploads_->Touch(touched));
  EXPECT_EQ(*Put("a", "again", "4"), again);
  EXPECT_EQ(uploads_->UsedBytes("a"), 6 * 65'536);
  EXPECT_EQ(Remove(), 2);
  EXPECT_THAT(Files(), ::testing::UnorderedElementsAre(named, folder, touched, again, young));
  EXPECT_EQ(uploads_->UsedBytes("a"), 5 * 65'536);
  EXPECT_EQ(uploads_->UsedBytes("b"), 0);
  EXPECT_FALSE(fs::exists(root_.path("files/b")));  // nor its folders
  EXPECT_FALSE(fs::exists(root_.path(fs::path(old).parent_path().string())));
  EXPECT_FALSE(uploads_->Touch(old));
  Age(again);
  EXPECT_EQ(Remove(), 1);
  EXPECT_EQ(*Put("a", "again", "4"), again);  // and may come again
}

TEST_F(RemovalTest, RemovesNothingButUploads) {
  const std::string sha(64, '1'), upload = "files/b/" + sha + "/x";
  const std::vector<std::string> not_uploads = {"files/by-hand/x",
                                                "files/x",
                                                "files/a/b/c/x",
                                                "files/A/" + sha + "/x",
                                                "files/a/" + sha + "/folder/x",
                                                "jobs/a/" + sha + "/x"};
  for (const std::string& path : not_uploads) Write(path, "x");
  Write(upload, "x");
  for (const std::string& path : Files()) Age(path);
  // Links are not followed, and stay.
  fs::create_directory_symlink(root_.path("jobs/a"), root_.path("files/link"));
  fs::create_symlink(root_.path("files/x"), root_.path("files/a/" + sha + "/link"));
  named_.unknown.insert("b");
  EXPECT_EQ(Remove(), 0);  // a job of b may name it
  named_.unknown.clear();
  EXPECT_EQ(Remove(), 1);
  EXPECT_FALSE(fs::exists(root_.path(upload)));
  for (const std::string& path : not_uploads) EXPECT_TRUE(fs::exists(root_.path(path))) << path;
  EXPECT_TRUE(fs::exists(root_.path("files/link/" + sha + "/x")));
  EXPECT_TRUE(fs::is_symlink(root_.path("files/a/" + sha + "/link")));
}

TEST_F(RemovalTest, RecountsAfterOthersRemovedFiles) {
  const std::string gone = *Put("a", "gone", "1");
  ASSERT_TRUE(Put("a", "stays", "2").ok());
  fs::remove(root_.path(gone));
  EXPECT_EQ(Remove(), 0);
  EXPECT_EQ(uploads_->UsedBytes("a"), 65'536);
}

TEST_F(RemovalTest, CountsUploadsThatArriveDuringTheRemoval) {
  ASSERT_TRUE(Put("a", "first", "1").ok());
  int asked = 0;
  uploads_->RemoveUnnamed(named_, absl::InfinitePast(), [&] {
    if (++asked == 1) {
      EXPECT_TRUE(Put("a", "second", "3").ok());
    }
    return false;
  });
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(uploads_->UsedBytes("a"), 2 * 65'536);
}

// A folder that cannot be listed is not an empty one.
TEST_F(RemovalTest, FailsIfAFolderCannotBeRead) {
  store::MemoryStore store;
  fs::create_directories(root_.path("jobs/p/j/checkpoints"));
  EXPECT_TRUE(FindNamedUploads(store, root_.path(), [] { return false; }).ok());
  fs::remove(root_.path("jobs/p/j/checkpoints"));
  fs::create_symlink("checkpoints", root_.path("jobs/p/j/checkpoints"));  // leads to itself
  EXPECT_EQ(FindNamedUploads(store, root_.path(), [] { return false; }).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST(NamedUploadsTest, FindsUploadsInEveryTextOfASpec) {
  v1::JobSpec spec;
  spec.mutable_data()->add_train_files("files/a/1/x");
  spec.mutable_data()->add_val_files("/data/files/a/2/x");
  spec.mutable_data()->add_pretrain_files("files/a/../b/3/x");
  spec.mutable_data()->add_pretrain_files("/elsewhere/files/a/4/x");
  spec.mutable_model()->set_path("/data/files/a/5/");
  spec.mutable_reward()->set_working_dir("filesystem");
  spec.mutable_reward()->set_command("python3 '/data/files/a/6/r.py' --x=files/a/7/y");
  NamedUploads named;
  named.AddTexts(spec, "/data");
  EXPECT_THAT(named.paths,
              ::testing::UnorderedElementsAre("files/a/1/x", "files/a/2/x", "files/b/3/x",
                                              "files/a/5", "files/a/6/r.py", "files/a/7/y"));
  EXPECT_TRUE(named.Has("files/a/5/x", "a"));
  EXPECT_FALSE(named.Has("files/a/55/x", "a"));
  named.unknown.insert("c");
  EXPECT_TRUE(named.Has("files/c/1/x", "c"));
}

TEST(UploadPathTest, HasTheFormOfAnUpload) {
  const std::string sha(64, 'a');
  const auto now = ParseUploadPath("files/p-1/" + sha + "/x y");
  ASSERT_TRUE(now.has_value());
  EXPECT_EQ(now->project, "p-1");
  EXPECT_EQ(now->content, sha);
  EXPECT_EQ(now->name, "x y");
  const std::vector<std::string> others = {"files/p/" + sha,
                                           "files/p/" + sha + "/",
                                           "files/P/" + sha + "/x",
                                           "files/p/abc/x",
                                           "files/../" + sha + "/x",
                                           "/files/p/" + sha + "/x",
                                           "files/p/" + sha + "/../x",
                                           "jobs/p/" + sha + "/x",
                                           "files/" + sha + "/x",
                                           "files/" + sha + "/x/y",
                                           "files/0/x",
                                           ""};
  for (const std::string& path : others) {
    EXPECT_FALSE(ParseUploadPath(path).has_value()) << path;
  }
}

}  // namespace
}  // namespace baton::controller
