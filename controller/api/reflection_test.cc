// Health and reflection beside the services.
#include <memory>
#include <set>
#include <string>

#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "tests/support/controller/api_server.h"

namespace baton::api {
namespace {

TEST_F(ApiServerTest, ServesHealthAndReflection) {
  grpc::ClientContext context;
  Deadline(context);
  grpc::GenericStub stub(channel_);
  grpc::CompletionQueue queue;
  auto ask = [&](const std::string& method) {
    grpc::ClientContext call;
    Deadline(call);
    const grpc::Slice empty;
    grpc::ByteBuffer request(&empty, 1), response;
    auto rpc = stub.PrepareUnaryCall(&call, method, request, &queue);
    rpc->StartCall();
    grpc::Status status;
    rpc->Finish(&response, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    return status;
  };
  EXPECT_TRUE(ask("/grpc.health.v1.Health/Check").ok());
  EXPECT_EQ(ask("/baton.v1.JobService/NoSuchMethod").error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_NE(ask("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo").error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
}

TEST_F(ApiServerTest, ReflectionAsksForATokenAsTheRest) {
  Start(Access(std::make_shared<access::TokenTable>(std::set<std::string>{"secret"})));
  const auto ask = [&](const std::string& authorization) {
    grpc::GenericStub stub(channel_);
    grpc::CompletionQueue queue;
    grpc::ClientContext call;
    Deadline(call);
    if (!authorization.empty()) call.AddMetadata("authorization", authorization);
    const grpc::Slice empty;
    grpc::ByteBuffer request(&empty, 1), response;
    auto rpc = stub.PrepareUnaryCall(
        &call, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", request, &queue);
    rpc->StartCall();
    grpc::Status status;
    rpc->Finish(&response, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    return status.ok() && response.Length() > 0;
  };
  EXPECT_TRUE(ask("Bearer secret"));
  EXPECT_FALSE(ask("Bearer wrong"));
  EXPECT_FALSE(ask(""));
}

}  // namespace
}  // namespace baton::api
