// Uploads over real gRPC: a file under its content, or nothing.
#include "controller/api/upload_file_reactor.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "boost/asio/post.hpp"
#include "boost/asio/thread_pool.hpp"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/controller/api_server.h"
#include "tests/support/controller/token_table.h"

namespace baton::api {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class UploadTest : public ApiServerTest {
 protected:
  absl::StatusOr<v1::UploadFileResponse> Upload(const std::string& name, const std::string& bytes,
                                                size_t piece) {
    grpc::ClientContext context;
    Deadline(context);
    v1::UploadFileResponse response;
    auto writer = jobs_->UploadFile(&context, &response);
    v1::UploadFileRequest request;
    request.set_filename(name);
    for (size_t at = 0; at == 0 || at < bytes.size(); at += piece) {
      request.set_data(bytes.substr(at, piece));
      if (!writer->Write(request)) break;
      request.clear_filename();
    }
    writer->WritesDone();
    const grpc::Status status = writer->Finish();
    if (!status.ok()) return FromGrpc(status);
    return response;
  }

  std::vector<std::string> Files() {
    std::vector<std::string> out;
    std::error_code none;
    for (const auto& entry : fs::recursive_directory_iterator(files_, none)) {
      if (entry.is_regular_file()) out.push_back(entry.path().filename().string());
    }
    return out;
  }
};

TEST_F(UploadTest, PutsAFileUnderItsContent) {
  std::string bytes;
  for (int i = 0; i < 300'000; ++i) bytes.push_back(static_cast<char>(i * 7 % 251));
  auto whole = Upload("prompts.jsonl", bytes, bytes.size());
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->size_bytes(), 300'000);
  // Python: hashlib.sha256(bytes(i * 7 % 251 for i in range(300000))).hexdigest()
  EXPECT_EQ(whole->path(),
            "files/default/"
            "b1cf7538cf80d01efe3e0b8e45dc930048a138c7b6f8c4aff08f478e4695e631"
            "/prompts.jsonl");
  std::ifstream in(files_ + whole->path().substr(5), std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), bytes);
  // The same bytes in pieces are the same file; other bytes are not.
  EXPECT_EQ(Upload("prompts.jsonl", bytes, 10'007)->path(), whole->path());
  bytes[5] ^= 1;
  EXPECT_NE(Upload("prompts.jsonl", bytes, 10'007)->path(), whole->path());
  EXPECT_EQ(Files().size(), 2u);
}

TEST_F(UploadTest, ANameCannotLeaveTheFolder) {
  for (const char* name : {"../../etc/passwd", "/etc/passwd", "..", "", ".", "a/b/passwd"}) {
    auto kept = Upload(name, "x", 1);
    ASSERT_TRUE(kept.ok()) << name << ": " << kept.status();
    EXPECT_THAT(kept->path(), ::testing::Not(HasSubstr(".."))) << name;
    EXPECT_TRUE(fs::exists(files_ + kept->path().substr(5))) << kept->path();
  }
  EXPECT_TRUE(Upload(std::string(5000, 'n'), "x", 1).ok());
}

TEST_F(UploadTest, ALongNameIsCutBetweenCharacters) {
  std::string name;
  for (int i = 0; i < 120; ++i) name += "ä";  // 240 bytes
  auto kept = Upload(name + "x", "x", 1);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_TRUE(absl::EndsWith(kept->path(), "/" + name.substr(42) + "x")) << kept->path();
  EXPECT_TRUE(fs::exists(files_ + kept->path().substr(5)));
}

TEST_F(UploadTest, AnUnfinishedFileIsNotKept) {
  grpc::ClientContext context;
  v1::UploadFileResponse response;
  auto writer = jobs_->UploadFile(&context, &response);
  v1::UploadFileRequest request;
  request.set_filename("half");
  request.set_data("half");
  ASSERT_TRUE(writer->Write(request));
  context.TryCancel();
  EXPECT_FALSE(writer->Finish().ok());
  server_.reset();  // everything under way has ended
  EXPECT_THAT(Files(), ::testing::IsEmpty());
}

// Opening a file may wait for the disk: never on a thread of gRPC.
TEST_F(UploadTest, AFileIsOpenedOnItsExecutor) {
  boost::asio::thread_pool pool(1);
  absl::Notification release;
  boost::asio::post(pool, [&] { release.WaitForNotification(); });
  v1::UploadFileResponse response;
  UploadPlaces places{{}};
  const auto choose = [](const std::string& said) -> absl::StatusOr<std::string> { return said; };
  auto* const reactor = new UploadFileReactor(absl::OkStatus(), uploads_.get(), &places, choose,
                                              &pool, /*context=*/nullptr, &response);
  EXPECT_THAT(Files(), ::testing::IsEmpty());
  reactor->OnDone();
  release.Notify();
  pool.join();
  EXPECT_THAT(Files(), ::testing::IsEmpty());
}

TEST_F(UploadTest, MoreThanTheQuotaIsRefusedWhileItArrives) {
  max_upload_bytes_ = 100'000;
  const auto refused = Upload("a", std::string(50 << 20, 'x'), 50'000);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrorReason(refused.status()), "QUOTA_UPLOADS");
  EXPECT_TRUE(Upload("a", std::string(100'000, 'x'), 50'000).ok());
  EXPECT_EQ(uploads_->UsedBytes("default"), 100'000);
}

TEST_F(UploadTest, AFolderThatCannotBeWrittenIsAnError) {
  fs::remove_all(files_);
  const auto refused = Upload("a", "x", 1);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(refused.status().message()), ::testing::HasSubstr("No such file"));
}

class OpenUploadsTest : public UploadTest {
 protected:
  struct Call {
    grpc::ClientContext context;
    v1::UploadFileResponse response;
    std::unique_ptr<grpc::ClientWriter<v1::UploadFileRequest>> writer;
  };

  void StartWith(const UploadLimits& limits) {
    ApiOptions options;
    options.uploads = limits;
    Start(Access(tokens_.table()), options);
  }
  /// An upload with one piece.
  std::unique_ptr<Call> Begin(const std::string& token) {
    auto call = std::make_unique<Call>();
    Deadline(call->context);
    call->context.AddMetadata("authorization", "Bearer " + token);
    call->writer = jobs_->UploadFile(&call->context, &call->response);
    v1::UploadFileRequest piece;
    piece.set_filename("x");
    piece.set_data("a piece");
    call->writer->Write(piece);
    return call;
  }
  /// Waits until `count` uploads have a place and an open file.
  bool BecomeOpen(size_t count) {
    const absl::Time end = absl::Now() + absl::Seconds(30);
    const auto open = [this] {
      const std::vector<std::string> files = Files();
      return static_cast<size_t>(std::count_if(
          files.begin(), files.end(),
          [](const std::string& name) { return absl::StartsWith(name, ".upload-"); }));
    };
    while (open() != count && absl::Now() < end) absl::SleepFor(absl::Milliseconds(1));
    return open() == count;
  }
  static absl::Status End(Call& call) {
    call.writer->WritesDone();
    return FromGrpc(call.writer->Finish());
  }

  access::TestTokens tokens_;
};

TEST_F(OpenUploadsTest, OpenUploadsOfOneProjectDoNotBlockOthers) {
  UploadLimits limits;
  limits.open = 3;
  limits.open_of_project = 2;
  StartWith(limits);
  const std::string a = tokens_.Make("a", "write"), b = tokens_.Make("b", "write");
  std::vector<std::unique_ptr<Call>> held;
  for (size_t i = 1; i <= 2; ++i) {
    held.push_back(Begin(a));
    ASSERT_TRUE(BecomeOpen(i));
  }
  const absl::Status refused = End(*Begin(a));
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_EQ(ErrorReason(refused), "UPLOADS_OPEN");
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(End(*Begin(b)).ok());
  for (auto& call : held) EXPECT_TRUE(End(*call).ok());
  EXPECT_TRUE(End(*Begin(a)).ok());
}

TEST_F(OpenUploadsTest, AnUploadWhoseNextPieceDoesNotComeEnds) {
  UploadLimits limits;
  limits.open_of_project = 1;
  limits.idle = absl::Milliseconds(200);
  StartWith(limits);
  const std::string token = tokens_.Make("a", "write");
  const auto held = Begin(token);
  const absl::Status ended = FromGrpc(held->writer->Finish());  // nothing more is sent
  EXPECT_EQ(ended.code(), absl::StatusCode::kDeadlineExceeded) << ended;
  EXPECT_EQ(ErrorReason(ended), "UPLOAD_IDLE");
  EXPECT_TRUE(End(*Begin(token)).ok());  // its place is free
  EXPECT_THAT(Files(), ::testing::ElementsAre("x"));
}

TEST_F(OpenUploadsTest, EndsAnUploadThatTakesTooLongInTotal) {
  UploadLimits limits;
  limits.longest = absl::Milliseconds(300);
  StartWith(limits);
  const auto held = Begin(tokens_.Make("a", "write"));
  v1::UploadFileRequest piece;
  piece.set_data("x");
  while (held->writer->Write(piece)) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(ErrorReason(FromGrpc(held->writer->Finish())), "UPLOAD_IDLE");
}

}  // namespace
}  // namespace baton::api
