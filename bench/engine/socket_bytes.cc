#include "bench/engine/socket_bytes.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace baton::bench {

int64_t SocketBytesReceived() {
  int64_t bytes = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    tcp_info info{};
    socklen_t size = sizeof(info);
    const int fd = std::atoi(entry.path().filename().c_str());
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0) {
      bytes += static_cast<int64_t>(info.tcpi_bytes_received);
    }
  }
  return bytes;
}

}  // namespace baton::bench
