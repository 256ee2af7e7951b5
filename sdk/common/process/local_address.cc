#include "sdk/common/process/local_address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>

#include "absl/strings/str_cat.h"

namespace baton {

absl::StatusOr<std::string> LocalAddressTowards(const std::string& host_port) {
  const size_t colon = host_port.rfind(':');
  std::string host = host_port.substr(0, colon);
  const std::string port = colon == std::string::npos ? "7077" : host_port.substr(colon + 1);
  if (host.size() > 1 && host.front() == '[') host = host.substr(1, host.size() - 2);  // IPv6
  addrinfo hints = {};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found); error != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot look up ", host_port, ": ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    const int fd = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
    if (fd < 0) continue;
    sockaddr_storage local = {};
    socklen_t size = sizeof(local);
    const bool known = connect(fd, at->ai_addr, at->ai_addrlen) == 0 &&
                       getsockname(fd, reinterpret_cast<sockaddr*>(&local), &size) == 0;
    close(fd);
    std::array<char, NI_MAXHOST> name = {};
    if (known && getnameinfo(reinterpret_cast<sockaddr*>(&local), size, name.data(), name.size(),
                             nullptr, 0, NI_NUMERICHOST) == 0) {
      return std::string(name.data());
    }
  }
  return absl::InvalidArgumentError(absl::StrCat("no route to ", host_port));
}

}  // namespace baton
