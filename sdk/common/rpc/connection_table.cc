#include "sdk/common/rpc/connection_table.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "sdk/common/base/clock.h"
#include "sdk/common/base/log.h"
#include "sdk/common/rpc/error.h"

namespace baton {
namespace {

constexpr absl::Duration kLookEvery = absl::Milliseconds(100);
constexpr absl::Duration kReportEvery = absl::Seconds(10);

/// The socket that a descriptor names; 0: none.
ino_t SocketOf(int fd) {
  struct stat found {};
  return ::fstat(fd, &found) == 0 && S_ISSOCK(found.st_mode) ? found.st_ino : 0;
}

/// The peer as gRPC writes it, and its address alone. For IPv6 only the network counts as an
/// address: each machine has a whole network of them.
std::pair<std::string, std::string> PeerOf(int fd) {
  sockaddr_storage storage = {};
  socklen_t size = sizeof(storage);
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return {};
  char text[INET6_ADDRSTRLEN] = {};
  if (storage.ss_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(storage);
    ::inet_ntop(AF_INET, &four.sin_addr, text, sizeof(text));
    return {absl::StrCat("ipv4:", text, ":", ntohs(four.sin_port)), text};
  }
  if (storage.ss_family != AF_INET6) return {};
  const auto& six = reinterpret_cast<const sockaddr_in6&>(storage);
  if (IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) {
    ::inet_ntop(AF_INET, &six.sin6_addr.s6_addr[12], text, sizeof(text));
    return {absl::StrCat("ipv4:", text, ":", ntohs(six.sin6_port)), text};
  }
  ::inet_ntop(AF_INET6, &six.sin6_addr, text, sizeof(text));
  const std::string peer = absl::StrCat("ipv6:%5B", text, "%5D:", ntohs(six.sin6_port));
  in6_addr network = six.sin6_addr;
  std::memset(network.s6_addr + 8, 0, 8);
  ::inet_ntop(AF_INET6, &network, text, sizeof(text));
  return {peer, absl::StrCat(text, "/64")};
}

/// Ends a connection that gRPC owns. The copy of the descriptor keeps the socket while it is looked
/// at: gRPC may close its own at any time, and the number may then be another file's.
void ShutDown(int fd, ino_t socket) {
  const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return;
  if (SocketOf(copy) == socket) ::shutdown(copy, SHUT_RDWR);
  ::close(copy);
}

}  // namespace

ConnectionTable::ConnectionTable(int max)
    : max_(std::max(8, max)),
      max_strangers_(max_ / 2),
      max_of_project_(max_ / 4),
      max_known_(max_ - max_ / 8) {}

bool ConnectionTable::IsOpen(int fd, const Entry& entry) { return SocketOf(fd) == entry.socket; }

ConnectionTable::Counts ConnectionTable::counts() {
  absl::MutexLock lock(&mu_);
  RemoveClosed();
  return {static_cast<int>(entries_.size()), closed_, refused_};
}

void ConnectionTable::ForgetStranger(const Entry& entry) {
  const auto of_address = strangers_.find(entry.address);
  of_address->second.erase(entry.number);
  if (of_address->second.empty()) strangers_.erase(of_address);
}

void ConnectionTable::Remove(int fd) {
  const auto it = entries_.find(fd);
  const Entry& entry = it->second;
  if (entry.project.empty()) {
    ForgetStranger(entry);
  } else {
    --all_known_;
    const auto of_project = known_.find(entry.project);
    if (--of_project->second == 0) known_.erase(of_project);
  }
  const auto peer = by_peer_.find(entry.peer);
  if (peer != by_peer_.end() && peer->second == fd) by_peer_.erase(peer);
  entries_.erase(it);
}

// Not with every call while the table is full: an attacker would pay with our time.
void ConnectionTable::RemoveClosed() {
  const absl::Time now = BootNow();
  if (now - looked_ < kLookEvery) return;
  looked_ = now;
  std::vector<int> closed;
  for (const auto& [fd, entry] : entries_) {
    if (!IsOpen(fd, entry)) closed.push_back(fd);
  }
  for (const int fd : closed) Remove(fd);
}

int ConnectionTable::StrangersOf(const std::string& address) const {
  const auto it = strangers_.find(address);
  return it == strangers_.end() ? 0 : static_cast<int>(it->second.size());
}

bool ConnectionTable::CloseStrangerOf(const std::string& address) {
  const auto it = strangers_.find(address);
  if (it == strangers_.end()) return false;
  const int fd = it->second.begin()->second;
  const Entry& oldest = entries_.at(fd);
  if (IsOpen(fd, oldest)) {
    ShutDown(fd, oldest.socket);
    Report(address, /*refused=*/false);
  }
  Remove(fd);
  return true;
}

bool ConnectionTable::CloseStranger() {
  const auto most = std::max_element(
      strangers_.begin(), strangers_.end(),
      [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  return most != strangers_.end() && CloseStrangerOf(std::string(most->first));
}

bool ConnectionTable::Enter(int fd) {
  Entry entry;
  entry.socket = SocketOf(fd);
  std::tie(entry.peer, entry.address) = PeerOf(fd);
  if (entry.peer.empty()) return false;  // it has left already
  absl::MutexLock lock(&mu_);
  if (entries_.count(fd) > 0) Remove(fd);  // gRPC has closed that one: the number is free again
  while (StrangersOf(entry.address) >= max_strangers_) CloseStrangerOf(entry.address);
  if (static_cast<int>(entries_.size()) >= max_) RemoveClosed();
  if (static_cast<int>(entries_.size()) >= max_ && !CloseStranger()) {
    Report(entry.address, /*refused=*/true);
    return false;
  }
  entry.number = ++last_number_;
  strangers_[entry.address][entry.number] = fd;
  by_peer_[entry.peer] = fd;
  entries_[fd] = std::move(entry);
  return true;
}

bool ConnectionTable::TooMany(const std::string& project, bool reserved) const {
  const auto of_project = known_.find(project);
  const bool its_share = of_project != known_.end() && of_project->second >= max_of_project_;
  return (project != "*" && its_share) || (!reserved && all_known_ >= max_known_);
}

absl::Status ConnectionTable::Know(const std::string& peer, const std::string& project,
                                   bool reserved) {
  absl::MutexLock lock(&mu_);
  const auto known = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const auto found = by_peer_.find(peer);  // absent: it has ended, or is not of this listener
    return found == by_peer_.end() || !entries_.at(found->second).project.empty();
  };
  if (known()) return absl::OkStatus();
  if (TooMany(project, reserved)) {
    RemoveClosed();
    if (known()) return absl::OkStatus();
  }
  Entry& entry = entries_.at(by_peer_.at(peer));
  if (TooMany(project, reserved)) {
    Report(entry.address, /*refused=*/true);
    return MakeError(absl::StatusCode::kResourceExhausted, "CONNECTIONS",
                     absl::StrCat("too many connections are open: project ", project, " may have ",
                                  max_of_project_, ", all projects together ", max_known_,
                                  "; close some, or make several calls over one connection"));
  }
  ForgetStranger(entry);
  entry.project = project;
  ++known_[project];
  ++all_known_;
  return absl::OkStatus();
}

// Logs one line for many refusals, so that an attack does not exhaust the log instead.
void ConnectionTable::Report(const std::string& address, bool refused) {
  ++(refused ? refused_ : closed_);
  const absl::Time now = BootNow();
  if (now - reported_ < kReportEvery) return;
  reported_ = now;
  Log(LogLevel::kWarn, "too many connections",
      {{"strangers_closed", closed_},
       {"refused", refused_},
       {"open", entries_.size()},
       {"max", max_},
       {"last_address", address}});
}

}  // namespace baton
