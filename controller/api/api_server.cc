#include "controller/api/api_server.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "boost/asio/post.hpp"
#include "boost/asio/thread_pool.hpp"
#include "controller/api/cluster_service.h"
#include "controller/api/experience_service.h"
#include "controller/api/job_service.h"
#include "controller/api/upload_file_reactor.h"
#include "controller/api/worker_service.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/health_check_service_interface.h"
#include "sdk/base/low_priority.h"

namespace baton::api {
namespace {

constexpr int kMaxMessageBytes = 64 << 20;
constexpr int kFileThreads = 2;

class ApiServerImpl : public ApiServer {
 public:
  ApiServerImpl(controller::ControllerInterface* controller, const Access& access)
      : files_(kFileThreads),
        jobs_(controller, access, &files_),
        workers_(controller, access),
        cluster_(controller, access),
        experience_(controller, access) {
    LowerPoolPriority(kFileThreads,
                      [this](auto work) { boost::asio::post(files_, std::move(work)); });
  }

  ~ApiServerImpl() override {
    if (server_ != nullptr) {
      server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(2));
      server_->Wait();
    }
    files_.join();
  }

  absl::Status Listen(const std::string& address) {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port_);
    builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
    builder.SetMaxSendMessageSize(kMaxMessageBytes);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 20000);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10000);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5000);
    builder.RegisterService(&jobs_);
    builder.RegisterService(&workers_);
    builder.RegisterService(&cluster_);
    builder.RegisterService(&experience_);
    server_ = builder.BuildAndStart();
    if (server_ != nullptr && port_ != 0) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat("cannot listen on ", address,
                     ": the port is in use, or the address is not this machine's; is a "
                     "controller running already? Choose another with --listen"));
  }

  int port() const override { return port_; }

 private:
  boost::asio::thread_pool files_;
  JobServiceImpl jobs_;
  WorkerServiceImpl workers_;
  ClusterServiceImpl cluster_;
  ExperienceServiceImpl experience_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ApiServer>> ApiServer::Start(
    const std::string& address, const Access& access, controller::ControllerInterface* controller) {
  if (access.open() && !IsLoopback(address)) {
    return absl::FailedPreconditionError(
        absl::StrCat(address,
                     " can be reached from other machines, and there are no tokens: "
                     "anybody could run commands here. Give --token-file FILE (one token a line), "
                     "or listen on 127.0.0.1"));
  }
  RemoveUnfinishedUploads(controller->files_dir());
  auto server = std::make_unique<ApiServerImpl>(controller, access);
  const absl::Status status = server->Listen(address);
  if (!status.ok()) return status;
  return server;
}

}  // namespace baton::api
