#include "controller/runtime/files/path_guard.h"

#include <filesystem>

#include "gtest/gtest.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;

class PathGuardTest : public ::testing::Test {
 protected:
  PathGuardTest() {
    fs::remove_all(root_);
    for (const char* folder : {"data/files/a/0", "data/files/b/0", "data/files/0",
                               "data/jobs/a/one", "data/jobs/ab", "models/x"}) {
      fs::create_directories(root_ + "/" + folder);
    }
    fs::create_directory_symlink(root_ + "/data/jobs/ab", root_ + "/data/jobs/a/link");
  }
  ~PathGuardTest() override { fs::remove_all(root_); }
  bool Opens(const std::string& path) const {
    return PathGuard(root_ + "/data", true, {root_ + "/models"}).Check(root_ + path, "a").ok();
  }
  const std::string root_ = ::testing::TempDir() + "path_guard";
};

TEST_F(PathGuardTest, OpensUploadsOwnJobsAndPermittedFolders) {
  EXPECT_TRUE(Opens("/data/files/a/0/train.jsonl"));
  EXPECT_TRUE(Opens("/data/jobs/a/one/checkpoints/step-1"));
  EXPECT_TRUE(Opens("/models/x"));
  EXPECT_TRUE(Opens("/models"));
}

TEST_F(PathGuardTest, RefusesAllOtherPaths) {
  for (const char* path :
       {"/data/files/b/0/train.jsonl", "/data/files/0/train.jsonl", "/data/files/a/../b/0/x",
        "/data/files", "/data/files/.upload-1-1", "/data/jobs/ab/x", "/data/baton.db", "/data",
        "/etc/passwd", "/models/../data/baton.db", "/data/files/../baton.db", "/data/jobs/a/link/x",
        "/data/jobs/a/../ab", "/modelsX"}) {
    EXPECT_FALSE(Opens(path)) << path;
  }
  const absl::Status refused = PathGuard("/d", true, {}).Check("/etc/shadow", "a");
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(ErrorReason(refused), "PATH");
  EXPECT_TRUE(PathGuard("/d", false, {}).Check("/etc/hosts", "a").ok());
}

// The folder of the project's jobs is made of its name.
TEST_F(PathGuardTest, AProjectIsAnId) {
  for (const char* project : {"", ".", "..", "a/..", "a/../..", "a/../ab", "/"}) {
    const PathGuard guard(root_ + "/data", true, {});
    EXPECT_FALSE(guard.Check(root_ + "/data/jobs/ab/x", project).ok()) << project;
    EXPECT_FALSE(guard.Check(root_ + "/data/baton.db", project).ok()) << project;
    EXPECT_FALSE(guard.CheckExport(root_ + "/data/exports/a/x", project).ok()) << project;
  }
}

TEST_F(PathGuardTest, AnExportDoesNotMeetJobsAndUploads) {
  for (const bool confined : {false, true}) {
    const PathGuard guard(root_ + "/data", confined, {root_});
    for (const char* path : {"/data/files/abc/x", "/data/files", "/data/jobs/a/two",
                             "/data/jobs/a/link/x", "/models/../data/files/x"}) {
      EXPECT_FALSE(guard.CheckExport(root_ + path, "a").ok()) << path;
    }
    EXPECT_TRUE(guard.CheckExport(root_ + "/models/new", "a").ok());
    EXPECT_TRUE(guard.CheckExport(root_ + "/data/exports/a/x", "a").ok());
  }
}

TEST_F(PathGuardTest, AnUploadStaysWhereUploadsAre) {
  EXPECT_TRUE(PathGuard::IsUpload("files/abc/train.jsonl"));
  for (const char* path : {"/files/x", "files/../jobs/x", "files/../../x", "jobs/x", "", "filesX/y",
                           "files", "files/", "files/a/../b", "files/../files/x", "../files/x"}) {
    EXPECT_FALSE(PathGuard::IsUpload(path)) << path;
  }
}

}  // namespace
}  // namespace baton::controller
