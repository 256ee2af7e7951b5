// up, down, status: a whole cluster on this machine.
#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "nlohmann/json.hpp"
#include "sdk/cli/cluster/commands.h"
#include "sdk/cli/cluster/supervisor.h"
#include "sdk/cli/cluster/up_children.h"
#include "sdk/cli/cluster/up_counts.h"
#include "sdk/cli/shared/controller_seen.h"
#include "sdk/cli/shared/options.h"
#include "sdk/cli/shared/sibling_program.h"
#include "sdk/cli/shared/table.h"
#include "sdk/common/base/clock.h"
#include "sdk/common/contracts/shared_key.h"

namespace baton::cli {
namespace {

namespace fs = std::filesystem;

constexpr absl::Duration kReady = absl::Seconds(60);
constexpr absl::Duration kGrace = absl::Seconds(10);

volatile sig_atomic_t g_stop = 0;
void OnSignal(int) { g_stop = 1; }

// A socket bound to the port, closed again: tells whether the port is free, and finds one for 0.
absl::StatusOr<int> FreePort(int port, const char* flag) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  const bool bound = ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  socklen_t size = sizeof(address);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  ::close(fd);
  if (bound) return static_cast<int>(ntohs(address.sin_port));
  return absl::FailedPreconditionError(
      absl::StrCat("port ", port, " is in use; stop what listens there, or give another ", flag,
                   " (0: any free one)"));
}

// OK once every worker is attached; an error when something keeps dying.
absl::Status WaitUntilReady(const GlobalOptions& options, const ClusterState& state, int workers,
                            Supervisor& supervisor) {
  GlobalOptions local = options;
  local.controller = state.controller;
  auto client = MakeClient(local);
  const absl::Time end = BootNow() + kReady;
  while (BootNow() < end && g_stop == 0) {
    supervisor.Poll(BootNow());
    for (const ProcessState& process : supervisor.States()) {
      if (process.restarts < 3) continue;
      return absl::UnavailableError(absl::StrCat(process.name, " does not start. Its log (",
                                                 process.log, ") ends with:\n",
                                                 supervisor.TailOf(process.name, 5)));
    }
    auto attached = client->ListWorkers();
    if (attached.ok()) {
      const auto count =
          std::count_if(attached->workers().begin(), attached->workers().end(),
                        [](const v1::Worker& w) { return w.state() == v1::Worker::STATE_READY; });
      if (count >= workers) return absl::OkStatus();
    }
    absl::SleepFor(absl::Milliseconds(100));
  }
  return g_stop != 0 ? absl::CancelledError("stopped")
                     : absl::DeadlineExceededError(
                           absl::StrCat("not all of ", workers, " workers attached within ",
                                        absl::FormatDuration(kReady), "; see the logs"));
}

void PrintReady(const ClusterState& state, const std::string& state_dir, const UpFlags& flags) {
  Table table({"PROCESS", "PID", "LOG"});
  for (const ProcessState& process : state.processes) {
    table.Add({process.name, absl::StrCat(process.pid), process.log});
  }
  std::printf("%s\ncontroller  %s\nstatus      http://%s/\nstate       %s\n",
              table.Format().c_str(), state.controller.c_str(), state.http.c_str(),
              state_dir.c_str());
  std::printf("workers     %s, for %d %s; `baton up --help` has an option for each number\n",
              UpCountsText(flags.counts).c_str(), flags.cores, flags.cores == 1 ? "core" : "cores");
  std::printf("commands    jobs may run a reward.command here (--command-sandbox %s)\n",
              flags.command_sandbox.c_str());
  std::fflush(stdout);
}

// The supervisor's life. Returns the exit code.
int Supervise(const GlobalOptions& options, const UpFlags& flags, ClusterState state) {
  const std::string state_dir = options.StateDir();
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  state.supervisor = ::getpid();
  Supervisor supervisor(UpChildren(flags, state_dir, state));
  absl::Status status = supervisor.Start();
  if (status.ok()) {
    state.processes = supervisor.States();
    status = WriteStateFile(state_dir, state);
  }
  if (status.ok()) {
    int workers = 0;
    for (const auto& [option, count] : flags.counts) workers += count;
    status = WaitUntilReady(options, state, workers, supervisor);
  }
  state.processes = supervisor.States();
  if (!status.ok()) {
    supervisor.Stop(kGrace);
    state.processes.clear();
    state.error = std::string(status.message());
    const absl::Status written = WriteStateFile(state_dir, state);
    if (!flags.detach) RemoveStateFile(state_dir);
    if (absl::IsCancelled(status)) return kOk;
    std::fprintf(stderr, "baton: %s\n",
                 std::string(written.ok() ? status.message() : written.message()).c_str());
    return kFailed;
  }
  state.ready = true;
  const absl::Status written = WriteStateFile(state_dir, state);
  if (!written.ok()) std::fprintf(stderr, "baton: %s\n", std::string(written.message()).c_str());
  if (!flags.detach) {
    PrintReady(state, state_dir, flags);
    std::printf("\nCtrl-C stops it\n");
    std::fflush(stdout);
  }
  while (g_stop == 0) {
    if (supervisor.Poll(BootNow())) {
      state.processes = supervisor.States();
      const absl::Status ignored = WriteStateFile(state_dir, state);
      if (!ignored.ok()) std::fprintf(stderr, "baton: %s\n", ignored.ToString().c_str());
    }
    absl::SleepFor(absl::Milliseconds(100));
  }
  supervisor.Stop(kGrace);
  RemoveStateFile(state_dir);
  return kOk;
}

// The caller of a detached supervisor waits for its word.
int WaitForSupervisor(const std::string& state_dir, pid_t supervisor, const UpFlags& flags) {
  const absl::Time end = BootNow() + kReady + absl::Seconds(15);
  while (BootNow() < end) {
    const auto state = ReadStateFile(state_dir);
    const bool ours = state.ok() && state->supervisor == supervisor;
    if (ours && state->ready) {
      PrintReady(*state, state_dir, flags);
      std::printf("\n`baton down` stops it\n");
      return kOk;
    }
    if ((ours && !state->error.empty()) || ::waitpid(supervisor, nullptr, WNOHANG) != 0) {
      std::fprintf(stderr, "baton: %s\n",
                   ours && !state->error.empty()
                       ? state->error.c_str()
                       : ("the supervisor died; see " + state_dir + "/logs").c_str());
      RemoveStateFile(state_dir);
      return kFailed;
    }
    absl::SleepFor(absl::Milliseconds(50));
  }
  std::fprintf(stderr, "baton: the cluster is not ready yet; look at `baton status`\n");
  return kFailed;
}

int Up(const GlobalOptions& options, UpFlags flags) {
  if (flags.fake && !fs::exists(SiblingPath("baton-fake-worker"))) {
    std::fprintf(stderr, "baton: --fake needs baton-fake-worker, which a build tree alone has\n");
    return kFailed;
  }
  const std::string state_dir = fs::absolute(options.StateDir()).string();
  GlobalOptions local = options;
  local.state_dir = state_dir;
  std::error_code code;
  fs::create_directories(state_dir + "/logs", code);
  if (code) {
    std::fprintf(stderr, "baton: cannot create %s: %s; give another --state-dir\n",
                 state_dir.c_str(), code.message().c_str());
    return kFailed;
  }
  const auto lock = StateLock::Take(state_dir);
  if (!lock.ok()) {
    const auto running = ReadStateFile(state_dir);
    std::fprintf(stderr, "baton: %s%s\n", std::string(lock.status().message()).c_str(),
                 !running.ok() ? ""
                               : absl::StrCat(" (controller ", running->controller,
                                              "); `baton down` stops it")
                                     .c_str());
    return kFailed;
  }
  if (const auto made = MakeKeyFile(RelayKey(state_dir)); !made.ok()) return Fail(local, made);
  ClusterState state;
  for (auto [port, flag] : {std::pair<int*, const char*>{&flags.port, "--port"},
                            {&flags.http_port, "--http-port"},
                            {&flags.relay_port, "--relay-port"}}) {
    auto free = FreePort(*port, flag);
    if (!free.ok()) return Fail(local, free.status());
    *port = *free;
  }
  state.controller = absl::StrCat("127.0.0.1:", flags.port);
  state.http = absl::StrCat("127.0.0.1:", flags.http_port);
  state.relay = absl::StrCat("127.0.0.1:", flags.relay_port);
  if (!flags.detach) return Supervise(local, flags, state);

  RemoveStateFile(state_dir);
  const pid_t pid = ::fork();
  if (pid != 0) return WaitForSupervisor(state_dir, pid, flags);
  ::setsid();
  const int log =
      ::open((state_dir + "/logs/supervisor.log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  const int null = ::open("/dev/null", O_RDONLY);
  ::dup2(null, STDIN_FILENO);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  return Supervise(local, flags, state);
}

int Down(const GlobalOptions& options) {
  const std::string state_dir = options.StateDir();
  const auto state = ReadStateFile(state_dir);
  if (!state.ok() || !IsUp(state_dir)) {
    if (IsUp(state_dir)) {
      std::fprintf(stderr, "baton: the cluster in %s is just starting; try again\n",
                   state_dir.c_str());
      return kFailed;
    }
    RemoveStateFile(state_dir);
    std::printf("no cluster runs in %s\n", state_dir.c_str());
    return kOk;
  }
  ::kill(state->supervisor, SIGTERM);
  const absl::Time end = BootNow() + kGrace + absl::Seconds(10);
  while (IsUp(state_dir)) {
    if (BootNow() > end) {
      std::fprintf(stderr, "baton: the supervisor (pid %d) does not stop\n", state->supervisor);
      return kFailed;
    }
    absl::SleepFor(absl::Milliseconds(50));
  }
  std::printf("the cluster is down; its data stay in %s\n", state_dir.c_str());
  return kOk;
}

// The supervisor only knows that the processes live; the controller is asked whether it works.
int Status(const GlobalOptions& options) {
  const std::string state_dir = options.StateDir();
  const auto state = ReadStateFile(state_dir);
  const bool runs = state.ok() && IsUp(state_dir);
  const ServerSeen seen = runs ? LookAtController(state->controller, {}) : ServerSeen();
  const bool up =
      runs && (seen.what == ServerSeen::What::kReady || seen.what == ServerSeen::What::kNotReady);
  const int code = up ? kOk : runs ? kUnreachable : kFailed;
  if (options.json()) {
    nlohmann::json json = {{"up", up}};
    if (runs) {
      json["controller"] = state->controller;
      json["controller_seen"] = SeenWord(seen);
      json["http"] = state->http;
      json["relay"] = state->relay;
      json["ready"] = state->ready && seen.what == ServerSeen::What::kReady;
      for (const ProcessState& p : state->processes) {
        json["processes"].push_back({{"name", p.name}, {"pid", p.pid}, {"restarts", p.restarts}});
      }
    }
    std::printf("%s\n", json.dump(2).c_str());
    return code;
  }
  if (!runs) {
    std::printf("no cluster runs in %s; start a cluster with `baton up`\n", state_dir.c_str());
    return code;
  }
  Table table({"PROCESS", "PID", "UP", "RESTARTS", "LOG"});
  for (const ProcessState& p : state->processes) {
    table.Add({p.name, p.pid == 0 ? "-" : absl::StrCat(p.pid),
               ShortDuration(absl::ToDoubleSeconds(absl::Now() - absl::FromUnixSeconds(p.started))),
               absl::StrCat(p.restarts), p.log});
  }
  std::printf("%s\ncontroller  %s\nstatus      http://%s/\n", table.Format().c_str(),
              state->controller.c_str(), state->http.c_str());
  if (seen.what == ServerSeen::What::kReady) return code;
  std::fflush(stdout);
  const std::string text =
      seen.what == ServerSeen::What::kNothingListens
          ? absl::StrCat("nothing listens at ", state->controller,
                         state->ready ? ": its controller has ended and is started again"
                                      : ": its controller is still starting",
                         "; see its log")
          : SeenText(state->controller, seen);
  std::fprintf(stderr, "baton: %s\n", ForTerminal(text).c_str());
  return code;
}

}  // namespace

void AddUpCommands(CLI::App& app, GlobalOptions* options, int* code) {
  auto* up = app.add_subcommand("up", "Start controller, relay and workers on this machine");
  auto flags = std::make_shared<UpFlags>();
  auto count = CLI::Range(0, 1024);
  auto port = CLI::Range(0, 65535);
  up->add_option(
        "--trainers", flags->counts["trainers"],
        "Workers of role actor; jobs that run at once need one each, or more, and a reward worker "
        "each. The defaults of all these numbers depend on the machine's cores")
      ->check(count)
      ->capture_default_str();
  up->add_option("--rollouts", flags->counts["rollouts"], "Workers of role rollout")
      ->check(count)
      ->capture_default_str();
  up->add_option("--rewards", flags->counts["rewards"], "Workers of role reward")
      ->check(count)
      ->capture_default_str();
  up->add_option("--scorers", flags->counts["scorers"],
                 "Workers that play critic, cost_critic, reference, reward_model, cost or judge, "
                 "one role at a "
                 "time")
      ->check(count)
      ->capture_default_str();
  up->add_option("--workers", flags->counts["workers"],
                 "Workers that play any role, and several at once: for jobs whose roles share "
                 "workers (resources.placement, resources.pools)")
      ->check(count)
      ->capture_default_str();
  for (const auto& [option, of] :
       {std::pair("--trainer-threads", "trainers"), std::pair("--rollout-threads", "rollouts")}) {
    up->add_option(option, flags->threads[of],
                   absl::StrCat("Threads that each of the ", of, " computes with"))
        ->check(CLI::Range(1, 1024))
        ->capture_default_str();
  }
  up->add_option("--port", flags->port, "gRPC port; 0: any free one")
      ->check(port)
      ->capture_default_str();
  up->add_option("--http-port", flags->http_port, "Port of the status page")
      ->check(port)
      ->capture_default_str();
  up->add_option("--relay-port", flags->relay_port, "Port of the relay")
      ->check(port)
      ->capture_default_str();
  up->add_flag("--detach", flags->detach, "Return when the cluster is ready; it keeps running");
  up->add_option("--command-sandbox", flags->command_sandbox,
                 "What a job's reward.command runs in: bubblewrap; auto: the same, and where it "
                 "does not work no command runs; none: it can do whatever you can")
      ->check(CLI::IsMember({"auto", "bubblewrap", "none"}))
      ->capture_default_str();
  up->add_flag("--fake", flags->fake)->group("");  // for tests: workers without a model
  up->callback([=] { *code = Up(*options, *flags); });

  auto* down = app.add_subcommand("down", "Stop what `up` started");
  down->callback([=] { *code = Down(*options); });

  auto* status = app.add_subcommand("status", "Show what `up` started");
  AddOutput(status, options);
  status->callback([=] { *code = Status(*options); });
}

}  // namespace baton::cli
