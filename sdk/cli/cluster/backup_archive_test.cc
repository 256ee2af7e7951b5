#include "sdk/cli/cluster/backup_archive.h"

#include <archive.h>
#include <archive_entry.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/base/test_folder.h"

namespace baton::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class BackupArchiveTest : public ::testing::Test {
 protected:
  std::string Archive() const { return root_ + "/backup.tar.zst"; }
  std::string Target() const { return root_ + "/data"; }

  void MustWrite() {
    auto writer = BackupWriter::Create(Archive());
    ASSERT_TRUE(writer.ok()) << writer.status();
    ASSERT_TRUE((*writer)->Begin("baton.db", 5).ok());
    ASSERT_TRUE((*writer)->Append("rows").ok());
    ASSERT_TRUE((*writer)->Append("!").ok());
    ASSERT_TRUE((*writer)->Begin("files/empty", 0).ok());
    ASSERT_TRUE((*writer)->Begin("jobs/p/j/experience/00000001.log", 3'000'000).ok());
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE((*writer)->Append(std::string(1'000'000, static_cast<char>('a' + i))).ok());
    }
    ASSERT_TRUE((*writer)->Close().ok());
  }
  // A plain archive of one's own, compressed as those are.
  void MustWriteEntries(const std::vector<std::pair<std::string, std::string>>& entries,
                        int type = AE_IFREG) {
    archive* out = archive_write_new();
    archive_write_add_filter_zstd(out);
    archive_write_set_format_pax_restricted(out);
    ASSERT_EQ(archive_write_open_filename(out, Archive().c_str()), ARCHIVE_OK);
    for (const auto& [path, content] : entries) {
      archive_entry* entry = archive_entry_new();
      archive_entry_set_pathname(entry, path.c_str());
      archive_entry_set_size(entry, static_cast<la_int64_t>(content.size()));
      archive_entry_set_filetype(entry, static_cast<unsigned>(type));
      if (type == AE_IFLNK) archive_entry_set_symlink(entry, "/etc/passwd");
      ASSERT_EQ(archive_write_header(out, entry), ARCHIVE_OK);
      archive_write_data(out, content.data(), content.size());
      archive_entry_free(entry);
    }
    archive_write_close(out);
    archive_write_free(out);
  }
  absl::Status Restore() { return RestoreBackup(Archive(), Target(), nullptr).status(); }
  std::string Read(const std::string& path) const { return folder_.Read(path); }
  int Entries() const {
    return static_cast<int>(std::distance(fs::directory_iterator(root_), fs::directory_iterator()));
  }

  const TestFolder folder_;
  const std::string root_ = folder_.path();
};

TEST_F(BackupArchiveTest, ComesBackAsItWas) {
  MustWrite();
  fs::create_directories(Target());  // empty is as good as not there
  std::vector<std::string> heard;
  const auto done =
      RestoreBackup(Archive(), Target(), [&](const std::string& path) { heard.push_back(path); });
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_EQ(done->files, 3);
  EXPECT_EQ(done->bytes, 3'000'005);
  EXPECT_EQ(heard.size(), 3u);
  EXPECT_EQ(Read(Target() + "/baton.db"), "rows!");
  EXPECT_TRUE(fs::is_regular_file(Target() + "/files/empty"));
  EXPECT_EQ(
      Read(Target() + "/jobs/p/j/experience/00000001.log"),
      std::string(1'000'000, 'a') + std::string(1'000'000, 'b') + std::string(1'000'000, 'c'));
  EXPECT_FALSE(fs::exists(Target() + "/MANIFEST"));
  EXPECT_EQ(Entries(), 2) << "nothing else is left";
}

TEST_F(BackupArchiveTest, CreatesNoArchiveUntilItIsComplete) {
  {
    auto writer = BackupWriter::Create(Archive());
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE((*writer)->Begin("baton.db", 5).ok());
    EXPECT_FALSE(fs::exists(Archive()));
    ASSERT_TRUE((*writer)->Append("row").ok());
    EXPECT_EQ((*writer)->Append("rows").code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ((*writer)->Close().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ((*writer)->Begin("../x", 1).code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(Entries(), 0);
  MustWrite();
  EXPECT_EQ(BackupWriter::Create(Archive()).status().code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(BackupArchiveTest, AFolderWithSomethingInItStaysAsItIs) {
  MustWrite();
  fs::create_directories(Target());
  std::ofstream(Target() + "/mine") << "mine";
  const absl::Status refused = Restore();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("is not empty"));
  EXPECT_EQ(Read(Target() + "/mine"), "mine");
}

TEST_F(BackupArchiveTest, RefusesTruncatedArchives) {
  MustWrite();
  const std::string whole = Read(Archive());
  for (const size_t size : {size_t{0}, size_t{10}, whole.size() / 2, whole.size() - 30}) {
    std::ofstream(Archive(), std::ios::binary) << whole.substr(0, size);
    EXPECT_EQ(Restore().code(), absl::StatusCode::kDataLoss) << size;
    EXPECT_FALSE(fs::exists(Target())) << size;
  }
  EXPECT_EQ(Entries(), 1);
  EXPECT_EQ(RestoreBackup(root_ + "/nowhere", Target(), nullptr).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(BackupArchiveTest, FilesThatAreNotInTheManifestOrElsewhereAreRefused) {
  // XXH3-128 of "" with seed 0, as published.
  const std::string empty = "99aa06d3014798d86001c324468d497f 0 ";
  const std::string first = "baton-backup 1\n";
  MustWriteEntries({{"a", ""}, {"MANIFEST", first + empty + "a\n"}});
  ASSERT_TRUE(Restore().ok());
  fs::remove_all(Target());
  for (const auto& entries : std::vector<std::vector<std::pair<std::string, std::string>>>{
           {{"a", ""}},                                                       // no manifest
           {{"a", ""}, {"b", ""}, {"MANIFEST", first + empty + "a\n"}},       // one too many
           {{"a", ""}, {"MANIFEST", first + empty + "a\n" + empty + "b\n"}},  // one is missing
           {{"a", "x"}, {"MANIFEST", first + empty + "a\n"}},                 // another content
           {{"a", ""}, {"MANIFEST", empty + "a\n"}},                          // another kind
           {{"../a", ""}, {"MANIFEST", first + empty + "../a\n"}},            // elsewhere
           {{"b/../../a", ""}, {"MANIFEST", first + empty + "b/../../a\n"}},
           {{"/tmp/a", ""}, {"MANIFEST", first + empty + "/tmp/a\n"}},
           {{"a", ""}, {"a", ""}, {"MANIFEST", first + empty + "a\n"}},  // twice
       }) {
    MustWriteEntries(entries);
    EXPECT_FALSE(Restore().ok()) << entries[0].first;
    EXPECT_FALSE(fs::exists(Target()));
  }
  MustWriteEntries({{"link", ""}}, AE_IFLNK);
  EXPECT_EQ(Restore().code(), absl::StatusCode::kDataLoss);
  EXPECT_FALSE(fs::exists(root_ + "/a"));
}

}  // namespace
}  // namespace baton::cli
