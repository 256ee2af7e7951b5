// baton-relay: holds policy versions in shared memory for one machine, and passes them to the
// relays of others.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "relay/main/controller_link.h"
#include "relay/segment/instance_lock.h"
#include "relay/server/relay_server.h"
#include "sdk/common/base/log.h"
#include "sdk/common/base/loopback.h"
#include "sdk/common/base/private_file.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/contracts/shared_key.h"
#include "sdk/common/process/file_limit.h"
#include "sdk/common/process/local_address.h"
#include "sdk/common/process/program.h"
#include "sdk/common/process/version.h"

namespace {

struct Flags {
  baton::relay::RelayServerOptions server;
  baton::relay::ControllerLinkOptions link;
  std::string chain_host;
  std::string controller_token_file;
  std::string token_file;
  std::string key_file;
  baton::LogOptions log;
  bool remove_orphans = false;
};

// What it is told by the controller, and how relays of other hosts reach it.
void DeclareLink(CLI::App& app, Flags& flags) {
  auto& worker = flags.link.worker;
  CLI::Option* controller = app.add_option("--controller", worker.controller,
                                           "host:port of the controller: this relay then passes "
                                           "versions to the relays of other hosts");
  app.add_option("--id", worker.worker_id, "Stable name (default: host and process id)")
      ->needs(controller);
  app.add_option("--controller-token-file", flags.controller_token_file,
                 "File with the bearer token for the controller (default: --token-file)")
      ->needs(controller);
  app.add_option("--tls-ca", worker.tls.ca,
                 "PEM file of the authority that signed the controller's certificate; system: the "
                 "machine's own list")
      ->needs(controller);
  app.add_option("--tls-cert", worker.tls.certificate, "PEM file: this program's certificate");
  app.add_option("--tls-key", worker.tls.key, "PEM file: its key");
  app.add_option("--chain-listen", flags.link.chain_listen,
                 "host:port for the relays of other hosts, e.g. 0.0.0.0:7080; port 0: any. Without "
                 "it this relay passes versions on, and receives none")
      ->needs(controller);
  app.add_option("--chain-host", flags.chain_host,
                 "Address of this machine for those relays (default: the one from which it reaches "
                 "the controller)");
  auto& tls = flags.link.chain.tls;
  app.add_option("--chain-tls-ca", tls.ca, "PEM file of the authority of all relays' certificates");
  app.add_option("--chain-tls-cert", tls.certificate,
                 "PEM file: this relay's certificate, for the address of --chain-host");
  app.add_option("--chain-tls-key", tls.key, "PEM file: its key");
}

/// An address that others can reach is for relays that show the jobs' capabilities, and in clear
/// text only where the user allows it.
absl::Status CheckChain(const Flags& flags) {
  const std::string& listen = flags.link.chain_listen;
  if (listen.empty()) return absl::OkStatus();
  const size_t colon = listen.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == listen.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--chain-listen: \"", listen, "\" is not host:port, e.g. 0.0.0.0:7080"));
  }
  if (baton::IsLoopbackHost(listen.substr(0, colon))) return absl::OkStatus();
  if (flags.key_file.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--chain-listen ", listen,
                     ": others can reach this address; give --capability-key-file with the key "
                     "that the controller has, so that only relays of a job can send its weights"));
  }
  if (flags.link.chain.tls.ca.empty() && !flags.server.insecure) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--chain-listen ", listen,
        ": weights would travel there in clear text; give --chain-tls-ca, --chain-tls-cert and "
        "--chain-tls-key, or --insecure where the network is trusted"));
  }
  return absl::OkStatus();
}

/// Attaches to the controller, in a thread of its own; null: no controller is named.
absl::StatusOr<std::unique_ptr<baton::relay::ControllerLink>> Attach(
    const Flags& flags, baton::relay::RelayServer& server) {
  if (flags.link.worker.controller.empty()) return nullptr;
  BATON_RETURN_IF_ERROR(CheckChain(flags));
  baton::relay::ControllerLinkOptions options = flags.link;
  options.address = server.address();
  options.directory = flags.server.relay.pool.directory;
  options.chain_host = flags.chain_host;
  if (options.chain_host.empty() && !options.chain_listen.empty()) {
    BATON_ASSIGN_OR_RETURN(options.chain_host,
                           baton::LocalAddressTowards(options.worker.controller));
  }
  options.worker.insecure = flags.server.insecure;
  const std::string token_file =
      flags.controller_token_file.empty() ? flags.token_file : flags.controller_token_file;
  if (!token_file.empty()) {
    BATON_ASSIGN_OR_RETURN(options.worker.token, baton::ReadTokenFile("--token-file", token_file));
  }
  return baton::relay::ControllerLink::Create(server.relay(), std::move(options));
}

void Declare(CLI::App& app, Flags& flags) {
  auto& pool = flags.server.relay.pool;
  app.add_option("--listen", flags.server.listen, "host:port; port 0: any")->capture_default_str();
  app.add_option("--shm-prefix", pool.prefix, "Segments are named PREFIX-…; orphans are removed")
      ->capture_default_str();
  app.add_option("--shm-dir", pool.directory, "Folder of the segments, in memory")
      ->capture_default_str();
  app.add_option("--max-bytes", pool.max_bytes,
                 "Most bytes of all segments together; 0: no limit but the memory")
      ->check(CLI::Range(uint64_t{0}, uint64_t{1} << 60))
      ->capture_default_str();
  app.add_option("--keep", flags.server.relay.keep,
                 "Sealed versions to keep for each job, besides those that are in use")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_flag("--remove-orphans", flags.remove_orphans,
               "Only remove what killed relays with this prefix left behind, then exit");
  app.add_option("--token-file", flags.token_file,
                 "File with the bearer token that callers must send");
  app.add_flag("--insecure", flags.server.insecure,
               "Allow the token to travel in clear text, in a network that you trust");
  app.add_option("--capability-key-file", flags.key_file,
                 "File with the key that the controller shares; with it only a job's own trainer "
                 "may publish for the job");
  DeclareLink(app, flags);
  baton::DeclareLogOptions(app, &flags.log);
}

int Fail(const absl::Status& status) { return baton::Fail("baton-relay", status); }

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Holds policy versions in shared memory for the workers of this machine");
  app.set_version_flag("--version", baton::VersionLine("baton-relay"));
  Flags flags;
  Declare(app, flags);
  CLI11_PARSE(app, argc, argv);
  if (flags.remove_orphans) {
    const auto& pool = flags.server.relay.pool;
    const auto removed = baton::relay::RemoveOrphans(pool.directory, pool.prefix);
    return removed.ok() ? 0 : Fail(removed.status());
  }
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);  // Only this program logs.
  if (!flags.token_file.empty()) {
    auto token = baton::ReadTokenFile("--token-file", flags.token_file);
    if (!token.ok()) return Fail(token.status());
    flags.server.token = *std::move(token);
  }
  if (!flags.key_file.empty()) {
    auto key = baton::ReadKeyFile("--capability-key-file", flags.key_file);
    if (!key.ok()) return Fail(key.status());
    flags.server.relay.capability_key = *std::move(key);
  }
  flags.log.process_name = "relay";
  baton::InitLog(flags.log);

  sigset_t stop;  // Blocked before any thread starts, so that only sigwait sees them.
  sigemptyset(&stop);
  sigaddset(&stop, SIGINT);
  sigaddset(&stop, SIGTERM);
  if (baton::ReopensOnHangup()) sigaddset(&stop, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &stop, nullptr);

  // Half of the descriptors: the rest is for segments, which are mapped from files.
  int& connections = flags.server.connections.connections;
  connections = std::min(connections, baton::RaiseFileLimit() / 2);
  const std::string directory = flags.server.relay.pool.directory;
  auto server = baton::relay::RelayServer::Start(flags.server);
  if (!server.ok()) return Fail(server.status());
  std::printf("baton-relay listening on %s\n", (*server)->address().c_str());
  std::fflush(stdout);
  baton::Log(baton::LogLevel::kInfo, "listening",
             {{"address", (*server)->address()}, {"segments", directory}});
  auto link = Attach(flags, **server);
  if (!link.ok()) return Fail(link.status());
  std::thread attached;
  absl::Status refused;
  if (*link != nullptr) {
    attached = std::thread([&] {
      refused = (*link)->Run();
      if (!refused.ok()) kill(getpid(), SIGTERM);
    });
    baton::Log(baton::LogLevel::kInfo, "listening for relays",
               {{"address", (*link)->chain_address()}});
  }
  int signal = 0;
  sigwait(&stop, &signal);
  for (; signal == SIGHUP; sigwait(&stop, &signal)) {
    baton::ReopenLog();
    baton::Log(baton::LogLevel::kInfo, "log file reopened");
  }
  baton::Log(baton::LogLevel::kInfo, "stopping", {{"signal", signal}});
  if (*link != nullptr) {
    (*link)->Stop();
    attached.join();
    *link = nullptr;
  }
  return refused.ok() ? 0 : Fail(refused);
}
