#include "sdk/common/rpc/health_service.h"

#include <string>
#include <utility>

#include "grpcpp/grpcpp.h"
#include "grpcpp/impl/codegen/server_callback_handlers.h"

namespace baton {
namespace {

// HealthCheckResponse {status: SERVING} on the wire: field 1, a varint, of value 1.
constexpr char kServing[] = "\x08\x01";

class HealthReactor : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  explicit HealthReactor(bool watch) : watch_(watch) {
    const grpc::Slice slice(kServing, sizeof(kServing) - 1);
    answer_ = grpc::ByteBuffer(&slice, 1);
    if (watch) {
      StartWrite(&answer_);
    } else {
      StartWriteAndFinish(&answer_, grpc::WriteOptions(), grpc::Status::OK);
    }
  }
  void OnCancel() override {
    if (watch_) Finish(grpc::Status::CANCELLED);
  }
  void OnDone() override { delete this; }

 private:
  const bool watch_;
  grpc::ByteBuffer answer_;
};

}  // namespace

HealthService::HealthService(std::function<absl::Status()> ready) {
  using grpc::internal::RpcMethod;
  using grpc::internal::RpcServiceMethod;
  using Handler = grpc::internal::CallbackBidiHandler<grpc::ByteBuffer, grpc::ByteBuffer>;
  const char* const names[] = {kHealthCheckMethod, "/grpc.health.v1.Health/Watch"};
  for (int i = 0; i < 2; ++i) {
    AddMethod(new RpcServiceMethod(names[i], RpcMethod::BIDI_STREAMING, nullptr));
    MarkMethodRawCallback(
        i, new Handler([watch = i == 1, ready](grpc::CallbackServerContext* context) {
          if (const absl::Status now = ready(); !now.ok()) {
            context->AddInitialMetadata(kNotReadyKey, std::string(now.message()));
          }
          return new HealthReactor(watch);
        }));
  }
}

}  // namespace baton
