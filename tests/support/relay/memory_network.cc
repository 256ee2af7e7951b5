#include "tests/support/relay/memory_network.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "relay/transport/frame_reader.h"

namespace baton::relay {

/// The peer's end hears of what this end sends through the same FrameReader as over TCP.
class MemoryConnection : public Connection,
                         public FrameReader::Sink,
                         public std::enable_shared_from_this<MemoryConnection> {
 public:
  MemoryConnection(MemoryNetwork* network, const void* owner)
      : network_(network), owner_(owner), reader_(network->limits_) {}

  void Join(const std::shared_ptr<MemoryConnection>& other) { other_ = other; }
  const void* owner() const { return owner_; }

  void Start(std::shared_ptr<ConnectionHandler> handler) override {
    handler_ = std::move(handler);
    if (closed_) return Finish(status_);
    self_ = shared_from_this();
    for (auto& call : std::exchange(early_, {})) network_->Post(std::move(call));
  }
  void Send(std::string message) override {
    if (message.size() > network_->limits_.message_bytes) {
      return Close(absl::InvalidArgumentError("the message is too long"));
    }
    Frame frame;
    frame.type = FrameType::kMessage;
    frame.size_bytes = message.size();
    Transmit(frame, std::move(message), nullptr);
  }
  void Offer(uint64_t region, absl::Span<uint8_t> memory) override {
    reader_.Offer(region, memory);
  }
  void Protect(uint64_t region, uint64_t bytes) override { reader_.Protect(region, bytes); }
  void Withdraw(uint64_t region) override { reader_.Withdraw(region); }
  void Put(uint64_t region, uint64_t offset, absl::Span<const uint8_t> bytes, uint64_t xxh3,
           std::function<void()> done) override {
    Transmit({FrameType::kPut, bytes.size(), region, offset, xxh3},
             std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()),
             std::move(done));
  }
  void Close(const absl::Status& status) override {
    if (closed_) return;
    Finish(status);
    const auto other = other_.lock();
    if (other == nullptr) return;
    At(other.get(),
       [other] { other->Finish(absl::UnavailableError("the peer closed the connection")); });
  }
  std::string peer() const override { return "memory"; }

  void Break() {
    const absl::Status broken = absl::UnavailableError("the connection broke");
    if (const auto other = other_.lock()) other->Finish(broken);
    Finish(broken);
  }

 private:
  void Message(std::string message) override {
    if (!closed_) handler_->OnMessage(std::move(message));
  }
  void Put(const PutArrival& put) override {
    if (!closed_) handler_->OnPut(put);
  }

  /// After all that this end has sent before.
  void At(MemoryConnection* to, std::function<void()> call) {
    last_ = std::max(last_, network_->now() + network_->Delay());
    network_->At(last_, std::move(call));
  }

  void Transmit(const Frame& frame, std::string body, std::function<void()> done) {
    if (done) network_->Post(std::move(done));
    const auto other = other_.lock();
    if (closed_ || other == nullptr) return;
    ++network_->frames_;
    if (network_->Happens(network_->faults_.cut)) {
      return network_->Post([self = shared_from_this()] { self->Break(); });
    }
    if (network_->Happens(network_->faults_.lost)) return;
    const FrameHeader header = EncodeFrame(frame);
    std::string bytes(reinterpret_cast<const char*>(header.data()), header.size());
    bytes += body;
    const int times = network_->Happens(network_->faults_.twice) ? 2 : 1;
    for (int i = 0; i < times; ++i) At(other.get(), [other, bytes] { other->Receive(bytes); });
  }

  void Receive(const std::string& bytes) {
    if (handler_ == nullptr && !closed_) {
      early_.push_back([self = shared_from_this(), bytes] { self->Receive(bytes); });
      return;
    }
    for (size_t at = 0; at < bytes.size() && !closed_;) {
      const absl::Span<uint8_t> space = reader_.Space();
      const size_t some = std::min(space.size(), bytes.size() - at);
      std::memcpy(space.data(), bytes.data() + at, some);
      at += some;
      const absl::Status status = reader_.Filled(some, this);
      if (!status.ok()) return Close(status);
    }
  }

  void Finish(const absl::Status& status) {
    if (!closed_) {
      closed_ = true;
      status_ = status;
    }
    if (handler_ == nullptr) return;
    network_->Post([handler = std::exchange(handler_, nullptr), status = status_] {
      handler->OnClosed(status);
    });
    self_ = nullptr;
  }

  MemoryNetwork* const network_;
  const void* const owner_;
  FrameReader reader_;
  std::weak_ptr<MemoryConnection> other_;
  std::shared_ptr<MemoryConnection> self_;  ///< While it is open.
  std::shared_ptr<ConnectionHandler> handler_;
  std::vector<std::function<void()>> early_;  ///< What came before Start.
  absl::Time last_ = absl::InfinitePast();
  bool closed_ = false;
  absl::Status status_;
};

class MemoryTransport : public Transport {
 public:
  explicit MemoryTransport(MemoryNetwork* network) : network_(network) {}
  ~MemoryTransport() override {
    *alive_ = false;
    for (auto it = network_->listeners_.begin(); it != network_->listeners_.end();) {
      it = it->second.transport == this ? network_->listeners_.erase(it) : std::next(it);
    }
    for (const auto& weak : network_->connections_) {
      const auto connection = weak.lock();
      if (connection != nullptr && connection->owner() == this) {
        connection->Close(absl::CancelledError("the relay stops"));
      }
    }
    network_->Run(absl::ZeroDuration());
  }

  absl::StatusOr<std::string> Listen(const std::string& address, Accepted accepted) override {
    const size_t colon = address.rfind(':');
    if (colon == std::string::npos) return absl::InvalidArgumentError("not host:port");
    const std::string real =
        address.substr(colon) == ":0"
            ? absl::StrCat(address.substr(0, colon), ":", network_->next_port_++)
            : address;
    if (network_->listeners_.count(real) > 0) return absl::UnavailableError("in use");
    network_->listeners_[real] = {this, std::move(accepted)};
    return real;
  }

  void Connect(const std::string& address, Connected connected) override {
    if (address.find(':') == std::string::npos) {
      return Post([connected] { connected(absl::InvalidArgumentError("not host:port")); });
    }
    After(network_->Delay(), [this, address, connected] {
      const auto it = network_->listeners_.find(address);
      if (it == network_->listeners_.end()) {
        return connected(absl::UnavailableError("relay " + address + ": nobody listens"));
      }
      auto mine = std::make_shared<MemoryConnection>(network_, this);
      auto theirs = std::make_shared<MemoryConnection>(network_, it->second.transport);
      mine->Join(theirs);
      theirs->Join(mine);
      network_->connections_.push_back(mine);
      network_->connections_.push_back(theirs);
      const Accepted accepted = it->second.accepted;
      accepted(theirs);
      connected(std::shared_ptr<Connection>(mine));
    });
  }

  void Post(std::function<void()> call) override { network_->Post(std::move(call)); }
  void After(absl::Duration delay, std::function<void()> call) override {
    network_->At(network_->now() + delay, [alive = alive_, call = std::move(call)] {
      if (*alive) call();
    });
  }
  absl::Time Now() const override { return network_->now(); }

 private:
  MemoryNetwork* const network_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

MemoryNetwork::~MemoryNetwork() = default;

std::unique_ptr<Transport> MemoryNetwork::NewTransport() {
  return std::make_unique<MemoryTransport>(this);
}

bool MemoryNetwork::Step() {
  std::function<void()> call;
  {
    absl::MutexLock lock(&mu_);
    if (events_.empty()) return false;
    const auto it = events_.begin();
    now_ = std::max(now_, it->first.first);
    call = std::move(it->second);
    events_.erase(it);
  }
  call();
  return true;
}

void MemoryNetwork::Run(absl::Duration time) {
  const absl::Time end = now() + time;
  const auto due = [&] {
    absl::MutexLock lock(&mu_);
    return !events_.empty() && events_.begin()->first.first <= end;
  };
  while (due()) Step();
  absl::MutexLock lock(&mu_);
  now_ = std::max(now_, end);
}

absl::Time MemoryNetwork::now() const {
  absl::MutexLock lock(&mu_);
  return now_;
}

void MemoryNetwork::CutAll() {
  for (const auto& weak : std::exchange(connections_, {})) {
    if (const auto connection = weak.lock()) connection->Break();
  }
}

void MemoryNetwork::At(absl::Time when, std::function<void()> call) {
  absl::MutexLock lock(&mu_);
  events_[{std::max(when, now_), order_++}] = std::move(call);
}

void MemoryNetwork::Post(std::function<void()> call) { At(absl::InfinitePast(), std::move(call)); }

bool MemoryNetwork::Happens(double probability) {
  return std::uniform_real_distribution<double>(0, 1)(random_) < probability;
}

absl::Duration MemoryNetwork::Delay() {
  return faults_.delay * std::uniform_real_distribution<double>(0, 1)(random_);
}

}  // namespace baton::relay
