#include "tests/end_to_end/process_testing.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <utility>

#include "tests/end_to_end/client_testing.h"

namespace baton::testing {

Process::Process(std::vector<std::string> arguments, std::string log) : log_(std::move(log)) {
  const char* build = std::getenv("BATON_BUILD_DIR");
  arguments[0] = std::string(build == nullptr ? "build" : build) + "/bin/" + arguments[0];
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const int fd = ::open(log_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(fd, STDOUT_FILENO);
    ::dup2(fd, STDERR_FILENO);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ::close(fd);
}

Process::~Process() {
  if (ended_) return;
  Signal(SIGKILL);
  ::waitpid(pid_, &status_, 0);
}

void Process::Signal(int signal) const { ::kill(pid_, signal); }

bool Process::running() {
  if (!ended_) ended_ = ::waitpid(pid_, &status_, WNOHANG) == pid_;
  return !ended_;
}

int64_t Process::PeakMemory() const {
  std::ifstream status("/proc/" + std::to_string(pid_) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) == 0) return std::atoll(line.c_str() + 6) * 1024;
  }
  return 0;
}

int Process::Wait() {
  if (!WaitFor([this] { return !running(); }, absl::Seconds(10))) return -1;
  return WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
}

std::string Process::Log() const {
  std::ifstream file(log_);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string Process::WaitForLog(const std::string& key) const {
  std::string text;
  size_t at = std::string::npos;
  WaitFor(
      [&] {
        text = Log();
        at = text.find(key);
        return at != std::string::npos && text.find('\n', at) != std::string::npos;
      },
      absl::Seconds(10));
  if (at == std::string::npos) return "";
  at += key.size();
  return text.substr(at, text.find_first_of(" \n", at) - at);
}

void Process::LimitFileSize(rlim_t bytes) const {
  const rlimit limit = {bytes, RLIM_INFINITY};
  ::prlimit(pid_, RLIMIT_FSIZE, &limit, nullptr);
}

std::string HttpGet(int port, const std::string& path) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  std::string answer;
  if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) {
    const std::string request =
        "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    if (::send(fd, request.data(), request.size(), MSG_NOSIGNAL) > 0) {
      char buffer[4096];
      for (ssize_t n; (n = ::recv(fd, buffer, sizeof(buffer), 0)) > 0;) {
        answer.append(buffer, static_cast<size_t>(n));
      }
    }
  }
  ::close(fd);
  return answer;
}

}  // namespace baton::testing
