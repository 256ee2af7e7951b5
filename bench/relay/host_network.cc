#include "bench/relay/host_network.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "sdk/common/base/clock.h"
#include "sdk/common/process/spawn.h"

namespace baton::bench {
namespace {

constexpr char kIp[] = "/usr/sbin/ip";

std::string ThisProgram() { return std::filesystem::canonical("/proc/self/exe").string(); }

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "relay_bench: %s\n", what.c_str());
  std::exit(1);
}

}  // namespace

Host::Host(std::vector<std::string> arguments) {
  int to[2], from[2];
  if (::pipe2(to, O_CLOEXEC) != 0 || ::pipe2(from, O_CLOEXEC) != 0) Fail("no pipes are left");
  SpawnOptions options;
  options.arguments = std::move(arguments);
  options.stdin_fd = to[0];
  options.stdout_fd = from[1];
  options.stderr_fd = STDERR_FILENO;
  options.death_signal = SIGKILL;
  const auto pid = Spawn(options);
  ::close(to[0]);
  ::close(from[1]);
  to_ = to[1];
  from_ = from[0];
  if (!pid.ok()) Fail(pid.status().ToString());
  pid_ = *pid;
  address_ = Expect("ready", absl::Seconds(20));
}

Host::~Host() {
  Kill();
  ::close(to_);
  ::close(from_);
}

void Host::Kill() {
  if (pid_ == 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

void Host::Tell(const std::string& line) {
  const std::string text = line + "\n";
  if (::write(to_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    Fail("a host does not listen: " + line);
  }
}

std::string Host::Expect(const std::string& word, absl::Duration limit) {
  const absl::Time deadline = BootNow() + limit;
  while (true) {
    for (auto it = lines_.begin(); it != lines_.end(); ++it) {
      if (!absl::StartsWith(*it + " ", word + " ")) continue;
      const std::string rest = it->size() > word.size() ? it->substr(word.size() + 1) : "";
      lines_.erase(it);
      return rest;
    }
    pollfd ready{from_, POLLIN, 0};
    const absl::Duration left = deadline - BootNow();
    if (left <= absl::ZeroDuration()) Fail("a host does not answer: " + word);
    if (::poll(&ready, 1, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1) <= 0) continue;
    char bytes[4096];
    const ssize_t some = ::read(from_, bytes, sizeof bytes);
    if (some <= 0) Fail("a host has ended before it answered: " + word);
    unread_.append(bytes, static_cast<size_t>(some));
    for (size_t end; (end = unread_.find('\n')) != std::string::npos;) {
      lines_.push_back(unread_.substr(0, end));
      unread_.erase(0, end + 1);
    }
  }
}

HostNetwork::HostNetwork(Options options)
    : options_(std::move(options)),
      prefix_(absl::StrCat("bt", ::getpid() % 100'000)),
      folder_(TestFolder::InMemory()) {
  if (options_.loopback) {
    why_loopback_ = "asked for";
  } else if (!std::filesystem::exists(kIp)) {
    why_loopback_ = "there is no /usr/sbin/ip (package iproute2)";
  } else if (Ip(absl::StrCat("link add ", prefix_, " type bridge")) &&
             Ip(absl::StrCat("link set ", prefix_, " up")) && MakeNamespace(0)) {
    why_loopback_.clear();
  }
}

HostNetwork::~HostNetwork() {
  for (int i = 0; i <= hosts_; ++i) {
    std::system(absl::StrCat(kIp, " netns del ", prefix_, "n", i, " 2>/dev/null").c_str());
  }
  std::system(absl::StrCat(kIp, " link del ", prefix_, " 2>/dev/null").c_str());
}

bool HostNetwork::Run(const std::string& command) {
  const std::string log = folder_.path("output");
  if (std::system(absl::StrCat(command, " >", log, " 2>&1").c_str()) == 0) return true;
  why_loopback_ = absl::StrCat("`", command, "` fails: ", folder_.Read("output"));
  return false;
}

bool HostNetwork::Ip(const std::string& arguments) {
  return Run(absl::StrCat(kIp, " ", arguments));
}

/// A namespace with eth0, whose other end is a port of the switch. Both ends limit what they send.
bool HostNetwork::MakeNamespace(int number) {
  const std::string name = absl::StrCat(prefix_, "n", number);
  const std::string port = absl::StrCat(prefix_, "p", number);
  const std::string limit = absl::StrCat("root tbf rate ", options_.rate, " burst ",
                                         options_.burst_bytes, " latency 50ms");
  return Ip("netns add " + name) &&
         Ip("link add " + port + " type veth peer name eth0 netns " + name) &&
         Ip("link set " + port + " master " + prefix_ + " up") &&
         Ip(absl::StrCat("-n ", name, " addr add 10.213.0.", number + 1, "/24 dev eth0")) &&
         Ip("-n " + name + " link set eth0 up") && Ip("-n " + name + " link set lo up") &&
         Ip("netns exec " + name + " tc qdisc add dev eth0 " + limit) &&
         Run("tc qdisc add dev " + port + " " + limit);
}

std::unique_ptr<Host> HostNetwork::NewHost() {
  const int number = hosts_++;
  if (!why_loopback_.empty()) {
    const std::string shm = folder_.path(absl::StrCat("host", number));
    std::filesystem::create_directories(shm);
    return std::make_unique<Host>(
        std::vector<std::string>{ThisProgram(), "--host", "127.0.0.1:0", "--shm", shm});
  }
  if (number > 0 && !MakeNamespace(number)) Fail(why_loopback_);
  return std::make_unique<Host>(std::vector<std::string>{
      kIp, "netns", "exec", absl::StrCat(prefix_, "n", number), ThisProgram(), "--host",
      absl::StrCat("10.213.0.", number + 1, ":7080"), "--shm", "/dev/shm", "--own-shm"});
}

}  // namespace baton::bench
