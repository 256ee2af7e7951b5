#include "controller/api/api_server.h"

#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "boost/asio/post.hpp"
#include "boost/asio/thread_pool.hpp"
#include "controller/api/access_service.h"
#include "controller/api/cluster_service.h"
#include "controller/api/experience_service.h"
#include "controller/api/job_service.h"
#include "controller/api/replay_service.h"
#include "controller/api/worker_service.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/health_check_service_interface.h"
#include "sdk/base/loopback.h"
#include "sdk/base/low_priority.h"
#include "sdk/base/status_macros.h"
#include "sdk/rpc/channel.h"
#include "sdk/rpc/channel_credentials.h"
#include "sdk/rpc/connection_limits.h"
#include "sdk/rpc/guarded_reflection.h"
#include "sdk/rpc/health_service.h"

namespace baton::api {
namespace {

// for messages of workers; other methods have lower limits
constexpr int kMaxMessageBytes = 64 << 20;
constexpr int kFileThreads = 2;

struct Listener {
  explicit Listener(const controller::ControllerInterface* controller)
      : health([controller] { return controller->Ready(); }) {}

  absl::Status Start(const std::string& address, const char* flag,
                     const std::vector<grpc::Service*>& services,
                     const std::shared_ptr<grpc::ServerCredentials>& credentials,
                     const Access& access, const ConnectionLimits& limits) {
    // gRPC's own health service accepts requests of any length
    grpc::EnableDefaultHealthCheckService(false);
    grpc::ServerBuilder builder;
    ServeReflection(builder, [access](const auto& context) { return access.KnowsCaller(context); });
    builder.AddListeningPort(address, credentials, &port);
    builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
    builder.SetMaxSendMessageSize(kMaxMessageBytes);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    KeepConnectionsAlive(builder);
    LimitConnections(builder, limits);
    builder.RegisterService(&health);
    for (grpc::Service* service : services) builder.RegisterService(service);
    server = builder.BuildAndStart();
    if (server != nullptr && port != 0) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat("cannot listen on ", address,
                     ": the port is in use, the address is not this machine's, or the TLS files do "
                     "not fit; is a controller running already? Choose another with ",
                     flag));
  }

  int port = 0;
  HealthService health;
  std::unique_ptr<grpc::Server> server;  // destroyed before what it serves
};

class ApiServerImpl : public ApiServer {
 public:
  ApiServerImpl(controller::ControllerInterface* controller, const Access& access)
      : access_(access),
        files_(kFileThreads),
        jobs_(controller, access, &files_),
        workers_(controller, access),
        cluster_(controller, access, &files_),
        tokens_(controller, access),
        replays_(controller, access),
        experience_(controller, access),
        users_listener_(controller),
        workers_listener_(controller) {
    LowerPoolPriority(kFileThreads,
                      [this](auto work) { boost::asio::post(files_, std::move(work)); });
  }

  ~ApiServerImpl() override {
    const auto end = std::chrono::system_clock::now() + std::chrono::seconds(2);
    for (Listener* listener : {&users_listener_, &workers_listener_}) {
      if (listener->server == nullptr) continue;
      listener->server->Shutdown(end);
      listener->server->Wait();
    }
    files_.join();
  }

  absl::Status Listen(const std::string& address, const ApiOptions& options) {
    BATON_ASSIGN_OR_RETURN(const auto credentials, MakeServerCredentials(options.tls));
    const std::vector<grpc::Service*> users = {&jobs_, &replays_, &cluster_, &tokens_};
    const std::vector<grpc::Service*> workers = {&workers_, &experience_};
    if (!options.worker_address.empty()) {
      BATON_RETURN_IF_ERROR(users_listener_.Start(address, "--listen", users, credentials, access_,
                                                  options.connections));
      return workers_listener_.Start(options.worker_address, "--worker-listen", workers,
                                     credentials, access_, options.connections);
    }
    std::vector<grpc::Service*> all = users;
    all.insert(all.end(), workers.begin(), workers.end());
    return users_listener_.Start(address, "--listen", all, credentials, access_,
                                 options.connections);
  }

  int port() const override { return users_listener_.port; }
  int worker_port() const override { return workers_listener_.port; }

 private:
  const Access access_;
  boost::asio::thread_pool files_;
  JobServiceImpl jobs_;
  WorkerServiceImpl workers_;
  ClusterServiceImpl cluster_;
  AccessServiceImpl tokens_;
  ReplayServiceImpl replays_;
  ExperienceServiceImpl experience_;
  Listener users_listener_, workers_listener_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ApiServer>> ApiServer::Start(
    const std::string& address, const Access& access, controller::ControllerInterface* controller,
    const ApiOptions& options) {
  for (const std::string& one : {address, options.worker_address}) {
    if (one.empty() || !access.open() || IsLoopback(one)) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(one,
                     " can be reached from other machines, and there are no tokens: "
                     "anybody could run commands here. Give --token-file FILE (one token a line), "
                     "or listen on 127.0.0.1"));
  }
  for (const std::string& one : {address, options.worker_address}) {
    if (one.empty() || options.tls.any() || options.insecure || IsLoopback(one)) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(one,
                     " can be reached from other machines, and tokens would travel there in clear "
                     "text. Give --tls-cert and --tls-key, or --insecure where the network is "
                     "trusted, or listen on 127.0.0.1"));
  }
  auto server = std::make_unique<ApiServerImpl>(controller, access);
  BATON_RETURN_IF_ERROR(server->Listen(address, options));
  return server;
}

}  // namespace baton::api
