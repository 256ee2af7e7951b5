// The set-up of the tests of the services: an ApiServer on a free port, before a mock controller,
// and a channel to it. One thread; every call has a deadline of 20 s.
#ifndef BATON_TESTS_SUPPORT_CONTROLLER_API_SERVER_H_
#define BATON_TESTS_SUPPORT_CONTROLLER_API_SERVER_H_

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "baton/v1/job_service.grpc.pb.h"
#include "controller/api/api_server.h"
#include "gmock/gmock.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "sdk/common/rpc/error.h"
#include "tests/support/controller/mock_controller.h"

namespace baton::api {

class ApiServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = ::testing::TempDir() + "api_root_" +
            ::testing::UnitTest::GetInstance()->current_test_info()->name();
    files_ = root_ + "/files";
    std::filesystem::remove_all(root_);
    uploads_ = std::make_unique<controller::Uploads>(
        root_, [this](const std::string&) { return max_upload_bytes_.load(); });
    ASSERT_TRUE(uploads_->Open().ok());
    ON_CALL(controller_, uploads()).WillByDefault(::testing::Return(uploads_.get()));
    Start(Access());
  }

  void Start(const Access& access, const ApiOptions& options = {}) {
    auto server = ApiServer::Start("127.0.0.1:0", access, &controller_, options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    grpc::ChannelArguments arguments;
    arguments.SetInt("test", ++channels_);  // no channel is shared with an earlier server
    channel_ = grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", server_->port()),
                                         grpc::InsecureChannelCredentials(), arguments);
    jobs_ = v1::JobService::NewStub(channel_);
  }

  static void Deadline(grpc::ClientContext& context) {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  }

  /// Calls a unary method with `name` set in the request; answers its status.
  template <typename Request, typename Response>
  absl::Status Call(grpc::Status (v1::JobService::Stub::*method)(grpc::ClientContext*,
                                                                 const Request&, Response*),
                    const Request& request, Response* response) {
    grpc::ClientContext context;
    Deadline(context);
    return FromGrpc((jobs_.get()->*method)(&context, request, response));
  }

  /// Calls any method with one request, which may be no message of its kind.
  grpc::Status CallRaw(const std::string& method, const grpc::ByteBuffer& request,
                       const std::string& token = "", grpc::ByteBuffer* response = nullptr) {
    grpc::GenericStub stub(channel_);
    grpc::CompletionQueue queue;
    grpc::ClientContext context;
    Deadline(context);
    if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
    auto call = stub.PrepareUnaryCall(&context, method, request, &queue);
    call->StartCall();
    grpc::ByteBuffer ignored;
    grpc::Status status;
    call->Finish(response == nullptr ? &ignored : response, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    return status;
  }

  std::string root_, files_;  // the data root, and where uploads are
  std::atomic<int64_t> max_upload_bytes_{0};
  std::unique_ptr<controller::Uploads> uploads_;
  ::testing::NiceMock<controller::MockController> controller_;
  std::unique_ptr<ApiServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::JobService::Stub> jobs_;
  int channels_ = 0;
};

}  // namespace baton::api

#endif  // BATON_TESTS_SUPPORT_CONTROLLER_API_SERVER_H_
