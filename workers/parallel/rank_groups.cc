#include "workers/parallel/rank_groups.h"

#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <csignal>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "sdk/common/base/clock.h"
#include "sdk/common/base/status_macros.h"
#include "workers/parallel/gloo_communicator.h"

namespace baton::parallel {
namespace {

using engine::Communicator;
using StorePtr = c10::intrusive_ptr<c10d::Store>;

struct HostPort {
  std::string host;
  uint16_t port = 0;
};

absl::StatusOr<HostPort> ParseTcp(absl::string_view store) {
  const absl::string_view rest = absl::StripPrefix(store, "tcp://");
  const size_t colon = rest.rfind(':');
  int port = 0;
  if (colon == absl::string_view::npos || colon == 0 ||
      !absl::SimpleAtoi(rest.substr(colon + 1), &port) || port < 1 || port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("store: \"", store, "\" is not tcp://HOST:PORT"));
  }
  return HostPort{std::string(rest.substr(0, colon)), static_cast<uint16_t>(port)};
}

bool IsLoopback(absl::string_view host) {
  return host == "localhost" || host == "::1" || absl::StartsWith(host, "127.");
}

absl::Status Check(const GroupAddress& a) {
  if (a.tp < 1 || a.dp < 1 || a.rank < 0 || a.rank >= a.world_size()) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", a.rank, " of tp ", a.tp, " x dp ", a.dp,
                                                   ": tp and dp are at least 1, the rank "
                                                   "below their product"));
  }
  if (a.timeout < absl::Milliseconds(1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("timeout: ", absl::FormatDuration(a.timeout), " is not above 0"));
  }
  if (absl::StartsWith(a.store, "tcp://")) return ParseTcp(a.store).status();
  if (absl::StartsWith(a.store, "file:///")) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("store: \"", a.store, "\" is neither tcp://HOST:PORT nor file:///PATH"));
}

StorePtr Connect(const GroupAddress& a) {
  if (absl::StartsWith(a.store, "file://")) {
    const std::string path(absl::StripPrefix(a.store, "file://"));
    auto store = c10::make_intrusive<c10d::FileStore>(path, a.world_size());
    store->setTimeout(absl::ToChronoMilliseconds(a.timeout));
    return store;
  }
  const HostPort place = *ParseTcp(a.store);
  c10d::TCPStoreOptions options;
  options.port = place.port;
  options.waitWorkers = false;
  options.timeout = absl::ToChronoMilliseconds(a.timeout);
  return c10::make_intrusive<c10d::TCPStore>(place.host, options);
}

// Until every rank has written that it is there: what follows takes no longer than connecting.
absl::Status WaitForAll(const GroupAddress& a, c10d::Store& store) {
  const auto key = [](int rank) { return absl::StrCat("rank ", rank); };
  store.set(key(a.rank), std::vector<uint8_t>{1});
  const absl::Time deadline = BootNow() + a.timeout;
  std::vector<int> missing(static_cast<size_t>(a.world_size()));
  std::iota(missing.begin(), missing.end(), 0);
  while (true) {
    missing.erase(std::remove_if(missing.begin(), missing.end(),
                                 [&](int rank) { return store.check({key(rank)}); }),
                  missing.end());
    if (missing.empty()) return absl::OkStatus();
    if (a.cancelled && a.cancelled()) {
      return absl::CancelledError(absl::StrCat("rank ", a.rank, ": joining was cancelled"));
    }
    if (BootNow() > deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("rank ", a.rank, " of ", a.world_size(), ": no word of rank ",
                       absl::StrJoin(missing, ", "), " within ", absl::FormatDuration(a.timeout),
                       " at ", a.store));
    }
    absl::SleepFor(absl::Milliseconds(20));
  }
}

std::shared_ptr<gloo::transport::Device> MakeDevice(const GroupAddress& a) {
  std::string host = a.host;
  const bool local = !absl::StartsWith(a.store, "tcp://") || IsLoopback(ParseTcp(a.store)->host);
  if (host.empty() && local) host = "127.0.0.1";
  return host.empty() ? c10d::ProcessGroupGloo::createDefaultDevice()
                      : c10d::ProcessGroupGloo::createDeviceForHostname(host);
}

void IgnoreBrokenPipes() {
  struct sigaction now = {};
  const bool ignorable = ::sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL;
  if (ignorable) ::signal(SIGPIPE, SIG_IGN);
}

}  // namespace

struct StoreServer::Impl {
  c10::intrusive_ptr<c10d::TCPStore> store;
};

StoreServer::StoreServer(std::unique_ptr<Impl> impl, std::string address)
    : impl_(std::move(impl)), address_(std::move(address)) {}
StoreServer::~StoreServer() = default;

absl::StatusOr<std::unique_ptr<StoreServer>> StoreServer::Start(const std::string& host, int port) {
  if (host.empty() || port < 0 || port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("a store at \"", host, "\", port ", port, " makes no sense"));
  }
  try {
    c10d::TCPStoreOptions options;
    options.port = static_cast<uint16_t>(port);
    options.isServer = true;
    options.waitWorkers = false;
    auto impl = std::make_unique<Impl>();
    impl->store = c10::make_intrusive<c10d::TCPStore>(host, options);
    std::string address = absl::StrCat("tcp://", host, ":", impl->store->getPort());
    return std::unique_ptr<StoreServer>(new StoreServer(std::move(impl), std::move(address)));
  } catch (const std::exception& error) {
    return absl::UnavailableError(
        absl::StrCat("cannot serve a store at ", host, ":", port, ": ", error.what()));
  }
}

struct RankGroups::Impl {
  StorePtr store;
  std::shared_ptr<gloo::transport::Device> device;
  std::vector<std::shared_ptr<const TransportBytes>> counters;
};

RankGroups::RankGroups(GroupAddress address, std::unique_ptr<Impl> impl)
    : address_(std::move(address)), impl_(std::move(impl)) {
  address_.cancelled = nullptr;  // it is asked while joining, and may not live longer
}
RankGroups::~RankGroups() = default;

absl::StatusOr<std::unique_ptr<RankGroups>> RankGroups::Join(const GroupAddress& address) {
  BATON_RETURN_IF_ERROR(Check(address));
  if (address.world_size() > 1) IgnoreBrokenPipes();
  const absl::Time since = BootNow();
  auto impl = std::make_unique<Impl>();
  try {
    if (address.world_size() > 1) {
      impl->store = c10::make_intrusive<c10d::PrefixStore>(
          absl::StrCat(address.name, " epoch ", address.group_epoch), Connect(address));
      BATON_RETURN_IF_ERROR(WaitForAll(address, *impl->store));
      impl->device = MakeDevice(address);
    }
  } catch (const std::exception& error) {
    return StatusOfC10d(error, absl::StrCat("rank ", address.rank, ": reaching ", address.store),
                        BootNow() - since, address.timeout);
  }
  std::unique_ptr<RankGroups> groups(new RankGroups(address, std::move(impl)));
  std::vector<int> tensor_ranks, data_ranks;
  for (int t = 0; t < address.tp; ++t) {
    tensor_ranks.push_back(address.data_rank() * address.tp + t);
  }
  for (int d = 0; d < address.dp; ++d) {
    data_ranks.push_back(d * address.tp + address.tensor_rank());
  }
  if (address.tp > 1) {
    BATON_ASSIGN_OR_RETURN(
        groups->tensor_group_,
        groups->NewGroup(absl::StrCat("tensor ", address.data_rank()), tensor_ranks));
  }
  if (address.dp > 1) {
    BATON_ASSIGN_OR_RETURN(
        groups->data_group_,
        groups->NewGroup(absl::StrCat("data ", address.tensor_rank()), data_ranks));
  }
  return groups;
}

absl::StatusOr<std::unique_ptr<Communicator>> RankGroups::NewGroup(absl::string_view name,
                                                                   absl::Span<const int> ranks) {
  const auto place = std::find(ranks.begin(), ranks.end(), address_.rank);
  if (place == ranks.end() || impl_->store == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", address_.rank, " is not one of group \"", name, "\""));
  }
  const absl::Time since = BootNow();
  const std::string what = absl::StrCat("rank ", address_.rank, ", group \"", name, "\"");
  try {
    GlooCommunicator::Options options;
    options.name = what;
    options.rank = static_cast<int>(place - ranks.begin());
    options.size = static_cast<int>(ranks.size());
    options.timeout = address_.timeout;
    const auto store = c10::make_intrusive<c10d::PrefixStore>(std::string(name), impl_->store);
    auto group = std::make_unique<GlooCommunicator>(std::move(options), store, impl_->device);
    impl_->counters.push_back(group->counter());
    return group;
  } catch (const std::exception& error) {
    return StatusOfC10d(error, absl::StrCat(what, ": joining"), BootNow() - since,
                        address_.timeout);
  }
}

engine::CollectiveBytes RankGroups::bytes() const {
  engine::CollectiveBytes total;
  for (const auto& counter : impl_->counters) {
    total.sent += counter->sent.load();
    total.received += counter->received.load();
  }
  return total;
}

}  // namespace baton::parallel
