// baton-relay: holds policy versions in shared memory for one machine.
#include <signal.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "relay/segment/instance_lock.h"
#include "relay/server/relay_server.h"
#include "sdk/common/base/log.h"
#include "sdk/common/base/private_file.h"
#include "sdk/common/contracts/shared_key.h"
#include "sdk/common/process/file_limit.h"
#include "sdk/common/process/program.h"
#include "sdk/common/process/version.h"

namespace {

struct Flags {
  baton::relay::RelayServerOptions server;
  std::string token_file;
  std::string key_file;
  baton::LogOptions log;
  bool remove_orphans = false;
};

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
  auto server = baton::relay::RelayServer::Start(std::move(flags.server));
  if (!server.ok()) return Fail(server.status());
  std::printf("baton-relay listening on %s\n", (*server)->address().c_str());
  std::fflush(stdout);
  baton::Log(baton::LogLevel::kInfo, "listening",
             {{"address", (*server)->address()}, {"segments", directory}});
  int signal = 0;
  sigwait(&stop, &signal);
  for (; signal == SIGHUP; sigwait(&stop, &signal)) {
    baton::ReopenLog();
    baton::Log(baton::LogLevel::kInfo, "log file reopened");
  }
  baton::Log(baton::LogLevel::kInfo, "stopping", {{"signal", signal}});
  return 0;
}
