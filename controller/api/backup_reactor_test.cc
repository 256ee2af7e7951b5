// The messages that a caller of Backup gets.
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "baton/v1/cluster_service.grpc.pb.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "tests/support/controller/api_server.h"

namespace baton::api {
namespace {

class FakeBackup : public controller::BackupFiles {
 public:
  FakeBackup(std::vector<controller::BackupFile> files, std::vector<std::string> damaged)
      : files_(std::move(files)), damaged_(std::move(damaged)) {}
  const std::vector<controller::BackupFile>& files() const override { return files_; }
  const std::vector<std::string>& damaged() const override { return damaged_; }

 private:
  const std::vector<controller::BackupFile> files_;
  const std::vector<std::string> damaged_;
};

class BackupReactorTest : public ApiServerTest {
 protected:
  controller::BackupFile FileOf(const std::string& name, const std::string& bytes) {
    controller::BackupFile file;
    file.path = name;
    file.place = absl::StrCat(root_, "/", name);
    file.size_bytes = static_cast<int64_t>(bytes.size());
    std::ofstream(file.place, std::ios::binary) << bytes;
    return file;
  }
  /// Every message of the stream; its status is OK.
  std::vector<v1::BackupResponse> Backup(std::vector<controller::BackupFile> files,
                                         std::vector<std::string> damaged) {
    const auto set = std::make_shared<FakeBackup>(std::move(files), std::move(damaged));
    EXPECT_CALL(controller_, Backup)
        .WillOnce([&](controller::Callback<std::shared_ptr<controller::BackupFiles>> done) {
          done(std::shared_ptr<controller::BackupFiles>(set));
        });
    const auto stub = v1::ClusterService::NewStub(channel_);
    grpc::ClientContext context;
    Deadline(context);
    const auto reader = stub->Backup(&context, v1::BackupRequest());
    std::vector<v1::BackupResponse> messages;
    for (v1::BackupResponse message; reader->Read(&message);) messages.push_back(message);
    EXPECT_TRUE(reader->Finish().ok());
    return messages;
  }
};

TEST_F(BackupReactorTest, FilesComeInPiecesAndTheirHashesAreCompared) {
  const std::string large(3'000'000, 'x');
  std::vector<controller::BackupFile> files = {FileOf("empty", ""), FileOf("large", large),
                                               FileOf("gone", "1")};
  files[1].xxh3 = std::string(16, '0');
  ASSERT_EQ(std::remove(files[2].place.c_str()), 0);
  std::string read;
  const std::vector<v1::BackupResponse> messages = Backup(files, {"j/step-1/a is missing"});
  for (const v1::BackupResponse& message : messages) read += message.data();
  EXPECT_EQ(messages[0].path(), "empty");
  EXPECT_EQ(messages[1].path(), "large");
  EXPECT_EQ(read, large);
  EXPECT_THAT(messages.back().skipped(), testing::ElementsAre("gone"));
  EXPECT_THAT(messages.back().damaged(),
              testing::ElementsAre("j/step-1/a is missing",
                                   testing::MatchesRegex("large has XXH3 [0-9a-f]{16}, and its "
                                                         "files.json says 0000000000000000")));
}

// The last message has a limit, even if a project's files.json has long names.
TEST_F(BackupReactorTest, ListsTheFirst200DamagedFilesAndCountsTheRest) {
  const std::vector<std::string> lines(1000, std::string(10'000, 'd'));
  const std::vector<v1::BackupResponse> messages = Backup({}, lines);
  ASSERT_EQ(messages.size(), 1u);
  ASSERT_EQ(messages[0].damaged_size(), 201);
  EXPECT_EQ(messages[0].damaged(200), "… and 800 more");
}

}  // namespace
}  // namespace baton::api
