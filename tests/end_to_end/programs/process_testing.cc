#include "tests/end_to_end/programs/process_testing.h"

#include <arpa/inet.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <utility>

namespace baton::testing {
namespace {

std::vector<std::string> InBin(std::vector<std::string> arguments) {
  const char* build = std::getenv("BATON_BUILD_DIR");
  arguments[0] = std::string(build == nullptr ? "build" : build) + "/bin/" + arguments[0];
  return arguments;
}

}  // namespace

Process::Process(std::vector<std::string> arguments, std::string log)
    : TestProcess(InBin(std::move(arguments)), std::move(log)) {}

int64_t Process::PeakMemory() const {
  std::ifstream status("/proc/" + std::to_string(pid()) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) == 0) return std::atoll(line.c_str() + 6) * 1024;
  }
  return 0;
}

void Process::LimitFileSize(rlim_t bytes) const {
  const rlimit limit = {bytes, RLIM_INFINITY};
  ::prlimit(pid(), RLIMIT_FSIZE, &limit, nullptr);
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
