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
#include "sdk/common/base/loopback.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/process/low_priority.h"
#include "sdk/common/rpc/channel.h"
#include "sdk/common/rpc/channel_credentials.h"
#include "sdk/common/rpc/connection_acceptor.h"
#include "sdk/common/rpc/connection_limits.h"
#include "sdk/common/rpc/guarded_reflection.h"
#include "sdk/common/rpc/health_service.h"

namespace baton::api {
namespace {

// for messages of workers; other methods have lower limits
constexpr int kMaxMessageBytes = 64 << 20;
constexpr int kFileThreads = 2;

struct Listener {
  explicit Listener(const controller::ControllerInterface* controller)
      : health([controller] { return controller->Ready(); }) {}

  absl::Status Start(std::unique_ptr<ConnectionAcceptor> listens,
                     const std::vector<grpc::Service*>& services,
                     const std::shared_ptr<grpc::ServerCredentials>& credentials,
                     const Access& access, const ConnectionLimits& limits) {
    acceptor = std::move(listens);
    // gRPC's own health service accepts requests of any length
    grpc::EnableDefaultHealthCheckService(false);
    grpc::ServerBuilder builder;
    ServeReflection(builder, [access](const auto& context) { return access.KnowsCaller(context); });
    acceptor->AddTo(builder, credentials);
    builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
    builder.SetMaxSendMessageSize(kMaxMessageBytes);
    KeepConnectionsAlive(builder);
    LimitConnections(builder, limits);
    builder.RegisterService(&health);
    for (grpc::Service* service : services) builder.RegisterService(service);
    server = builder.BuildAndStart();
    if (server == nullptr) {
      return absl::FailedPreconditionError(
          "the gRPC services cannot be started: the TLS files do not fit");
    }
    acceptor->Start();
    return absl::OkStatus();
  }
  int port() const { return acceptor == nullptr ? 0 : acceptor->port(); }

  HealthService health;
  std::unique_ptr<grpc::Server> server;          // destroyed before what it serves
  std::unique_ptr<ConnectionAcceptor> acceptor;  // destroyed before what it gives connections
};

class ApiServerImpl : public ApiServer {
 public:
  ApiServerImpl(controller::ControllerInterface* controller, const Access& access,
                const UploadLimits& uploads)
      : access_(access),
        files_(kFileThreads),
        jobs_(controller, access, &files_, uploads),
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
      listener->acceptor = nullptr;
      if (listener->server == nullptr) continue;
      listener->server->Shutdown(end);
      listener->server->Wait();
    }
    files_.join();
  }

  /// `workers`: null: they attach where users call.
  absl::Status Serve(std::unique_ptr<ConnectionAcceptor> users,
                     std::unique_ptr<ConnectionAcceptor> workers, const ApiOptions& options) {
    BATON_ASSIGN_OR_RETURN(const auto credentials, MakeServerCredentials(options.tls));
    std::vector<grpc::Service*> of_users = {&jobs_, &replays_, &cluster_, &tokens_};
    const std::vector<grpc::Service*> of_workers = {&workers_, &experience_};
    if (workers == nullptr) {
      of_users.insert(of_users.end(), of_workers.begin(), of_workers.end());
    } else {
      BATON_RETURN_IF_ERROR(workers_listener_.Start(std::move(workers), of_workers, credentials,
                                                    access_, options.connections));
    }
    return users_listener_.Start(std::move(users), of_users, credentials, access_,
                                 options.connections);
  }

  int port() const override { return users_listener_.port(); }
  int worker_port() const override { return workers_listener_.port(); }
  ConnectionTable::Counts connections() const override {
    ConnectionTable::Counts all;
    for (const Listener* listener : {&users_listener_, &workers_listener_}) {
      if (listener->acceptor == nullptr) continue;
      const ConnectionTable::Counts counts = listener->acceptor->table()->counts();
      all.open += counts.open;
      all.strangers_closed += counts.strangers_closed;
      all.refused += counts.refused;
    }
    return all;
  }

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

absl::StatusOr<std::unique_ptr<ConnectionAcceptor>> ListenAt(const std::string& address,
                                                             const char* flag, int connections) {
  auto acceptor = ConnectionAcceptor::Listen(address, connections);
  if (acceptor.ok()) return acceptor;
  return absl::FailedPreconditionError(
      absl::StrCat("cannot listen on ", address, ": ", acceptor.status().message(),
                   "; is a controller running already? Choose another with ", flag));
}

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
  const int connections = options.connections.connections;
  BATON_ASSIGN_OR_RETURN(auto users, ListenAt(address, "--listen", connections));
  std::vector<std::shared_ptr<ConnectionTable>> tables = {users->table()};
  std::unique_ptr<ConnectionAcceptor> workers;
  if (!options.worker_address.empty()) {
    BATON_ASSIGN_OR_RETURN(workers,
                           ListenAt(options.worker_address, "--worker-listen", connections));
    tables.push_back(workers->table());
  }
  auto server = std::make_unique<ApiServerImpl>(
      controller, access.WithConnectionTables(std::move(tables)), options.uploads);
  BATON_RETURN_IF_ERROR(server->Serve(std::move(users), std::move(workers), options));
  return server;
}

}  // namespace baton::api
