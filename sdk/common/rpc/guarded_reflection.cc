#include "sdk/common/rpc/guarded_reflection.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/support/server_interceptor.h"

namespace baton {
namespace {

using May = std::function<bool(const grpc::ServerContextBase&)>;

class Guard : public grpc::experimental::Interceptor {
 public:
  Guard(grpc::experimental::ServerRpcInfo* info, const May* may) : info_(info), may_(may) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    // Before the method sees the call.
    if (methods->QueryInterceptionHookPoint(
            grpc::experimental::InterceptionHookPoints::POST_RECV_INITIAL_METADATA) &&
        !(*may_)(*info_->server_context())) {
      info_->server_context()->TryCancel();
    }
    methods->Proceed();
  }

 private:
  grpc::experimental::ServerRpcInfo* const info_;
  const May* const may_;
};

class GuardFactory : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit GuardFactory(May may) : may_(std::move(may)) {}

  // Null: this method is not looked at.
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override {
    return absl::StartsWith(info->method(), "/grpc.reflection.") ? new Guard(info, &may_) : nullptr;
  }

 private:
  const May may_;
};

}  // namespace

void ServeReflection(grpc::ServerBuilder& builder, May may) {
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> factories;
  factories.push_back(std::make_unique<GuardFactory>(std::move(may)));
  builder.experimental().SetInterceptorCreators(std::move(factories));
}

}  // namespace baton
