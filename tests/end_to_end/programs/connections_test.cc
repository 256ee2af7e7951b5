// Few descriptors, and callers who take all that they get: others are served all the same.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/programs/process_cluster_testing.h"

namespace baton::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kFiles = 256;
constexpr int kGreedy = 3 * kFiles;

class ConnectionsTest : public ProcessTest {
 protected:
  ConnectionsTest() {
    const char* build = std::getenv("BATON_BUILD_DIR");
    program_ = absl::StrCat(build == nullptr ? "build" : build, "/bin/baton-controller");
    few_ = std::make_unique<TestProcess>(
        std::vector<std::string>{"/bin/sh", "-c",
                                 absl::StrCat("ulimit -n ", kFiles, " && exec \"$0\" \"$@\""),
                                 program_, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0",
                                 "--data-root", data_root_, "--checker", "none"},
        Folder("few.log"));
    const std::string port = few_->WaitForLog("grpc_port=");
    EXPECT_FALSE(port.empty()) << few_->Log();
    port_ = std::atoi(port.c_str());
    http_port_ = std::atoi(few_->WaitForLog("http_port=").c_str());
    listen_ = "127.0.0.1:" + port;
    client_.Connect(listen_);
  }
  ~ConnectionsTest() override {
    for (const int fd : idle_) ::close(fd);
  }

  /// Connects, and says nothing.
  void ConnectIdly(int port, int count) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    for (int i = 0; i < count; ++i) {
      const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      ASSERT_GE(fd, 0);
      idle_.push_back(fd);
      ASSERT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    }
  }
  void ExpectThatOthersAreServed() {
    EXPECT_THAT(HttpGet(http_port_, "/healthz"), HasSubstr("200"));
    v1::CreateJobRequest request;
    request.set_project("other");
    *request.mutable_spec() = client_.RlSpec(1);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    v1::Job job;
    const grpc::Status created = client_.stub().CreateJob(&context, request, &job);
    EXPECT_TRUE(created.ok()) << created.error_message() << few_->Log();
  }

  std::string program_;
  std::unique_ptr<TestProcess> few_;
  int port_ = 0;
  std::vector<int> idle_;
};

TEST_F(ConnectionsTest, IdleConnectionsDoNotBlockOthers) {
  ConnectIdly(port_, kGreedy);
  ConnectIdly(http_port_, kGreedy);
  ExpectThatOthersAreServed();
  EXPECT_THAT(few_->Log(), HasSubstr("too many connections"));
  const std::string metrics = HttpGet(http_port_, "/metrics");
  EXPECT_THAT(metrics, HasSubstr("baton_connections{state=\"strangers_closed\"} "));
  EXPECT_THAT(metrics, Not(HasSubstr("baton_connections{state=\"strangers_closed\"} 0\n")));
}

TEST_F(ConnectionsTest, UploadsHeldOpenDoNotBlockOthers) {
  struct Call {
    grpc::ClientContext context;
    v1::UploadFileResponse response;
    std::unique_ptr<grpc::ClientWriter<v1::UploadFileRequest>> writer;
  };
  std::vector<std::unique_ptr<Call>> held;
  int refused = 0;
  for (int i = 0; i < kGreedy; ++i) {
    held.push_back(std::make_unique<Call>());
    Call& call = *held.back();
    call.context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    call.writer = client_.stub().UploadFile(&call.context, &call.response);
    v1::UploadFileRequest piece;
    piece.set_project("greedy");
    piece.set_filename("x");
    piece.set_data("a piece");
    call.writer->Write(piece);
  }
  // The calls hold all connections once one more is refused.
  ASSERT_TRUE(WaitFor([this] {
    grpc::ClientContext context;
    v1::UploadFileResponse response;
    const auto writer = client_.stub().UploadFile(&context, &response);
    v1::UploadFileRequest whole;
    whole.set_project("greedy");
    whole.set_filename("y");
    writer->Write(whole);
    writer->WritesDone();
    return !writer->Finish().ok();
  }));
  ExpectThatOthersAreServed();
  for (auto& call : held) {
    const bool open = call->writer->Write(v1::UploadFileRequest());
    if (open) call->context.TryCancel();
    const absl::Status ended = FromGrpc(call->writer->Finish());
    refused += !open && ErrorReason(ended) == "UPLOADS_OPEN";
  }
  EXPECT_GT(refused, kGreedy / 2);
}

}  // namespace
}  // namespace baton::testing
