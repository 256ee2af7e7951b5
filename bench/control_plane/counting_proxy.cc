#include "bench/control_plane/counting_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"

namespace baton::bench {
namespace {

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

bool WriteAll(int to, const char* data, ssize_t size) {
  while (size > 0) {
    const ssize_t written = ::send(to, data, static_cast<size_t>(size), MSG_NOSIGNAL);
    if (written <= 0) return false;
    data += written;
    size -= written;
  }
  return true;
}

}  // namespace

CountingProxy::CountingProxy(int server_port) : server_port_(server_port) {
  listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener_, any, size) != 0 || ::listen(listener_, 64) != 0 ||
      ::getsockname(listener_, any, &size) != 0) {
    return;
  }
  address_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  acceptor_ = std::thread([this] { Accept(); });
}

CountingProxy::~CountingProxy() {
  ::shutdown(listener_, SHUT_RDWR);
  if (acceptor_.joinable()) acceptor_.join();
  std::vector<std::thread> copiers;
  std::vector<int> sockets;
  {
    absl::MutexLock lock(&mu_);
    copiers.swap(copiers_);
    sockets.swap(sockets_);
  }
  for (int socket : sockets) ::shutdown(socket, SHUT_RDWR);
  for (std::thread& copier : copiers) copier.join();
  for (int socket : sockets) ::close(socket);
  ::close(listener_);
}

void CountingProxy::Accept() {
  while (true) {
    const int client = ::accept(listener_, nullptr, nullptr);
    if (client < 0) return;
    const int server = ::socket(AF_INET, SOCK_STREAM, 0);
    const sockaddr_in address = Loopback(server_port_);
    const bool connected =
        ::connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    absl::MutexLock lock(&mu_);
    sockets_.insert(sockets_.end(), {client, server});
    if (!connected) {
      ::shutdown(client, SHUT_RDWR);
      continue;
    }
    copiers_.emplace_back([=] { Copy(client, server, nullptr); });
    copiers_.emplace_back([=] { Copy(server, client, &bytes_to_clients_); });
  }
}

void CountingProxy::Copy(int from, int to, std::atomic<int64_t>* bytes) {
  std::array<char, 1 << 16> buffer;
  while (true) {
    const ssize_t size = ::recv(from, buffer.data(), buffer.size(), 0);
    if (size <= 0 || !WriteAll(to, buffer.data(), size)) break;
    if (bytes != nullptr) *bytes += size;
  }
  ::shutdown(from, SHUT_RDWR);
  ::shutdown(to, SHUT_RDWR);
}

}  // namespace baton::bench
