#include "bench/relay/bench_host.h"

#include <sys/mount.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <random>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "boost/asio/buffer.hpp"
#include "boost/asio/connect.hpp"
#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/write.hpp"
#include "relay/segment/checksum_message.h"
#include "relay/segment/shared_file.h"
#include "relay/server/chain_member.h"
#include "relay/server/relay.h"
#include "relay/transport/tcp_transport.h"
#include "relay/weights/safetensors_writer.h"
#include "sdk/common/base/clock.h"
#include "sdk/common/base/log.h"

namespace baton::bench {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using relay::ChainMember;
using relay::Relay;

int64_t Nanoseconds() { return absl::ToInt64Nanoseconds(BootNow() - absl::UnixEpoch()); }

/// Thread-safe.
void Say(const std::string& line) {
  static absl::Mutex mu;
  absl::MutexLock lock(&mu);
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

[[noreturn]] void Die(const std::string& what, const absl::Status& status) {
  std::fprintf(stderr, "bench host: %s: %s\n", what.c_str(), status.ToString().c_str());
  std::_Exit(1);
}

/// `Result`: void, or a ticket.
template <typename Result, typename Request, typename Response>
Response Ask(Relay& relay, Result (Relay::*method)(Request, Relay::Done<Response>),
             const Request& request) {
  absl::Notification done;
  absl::StatusOr<Response> result;
  (relay.*method)(request, [&](absl::StatusOr<Response> answer) {
    result = std::move(answer);
    done.Notify();
  });
  done.WaitForNotification();
  if (!result.ok()) Die("relay", result.status());
  return *std::move(result);
}

class BenchHost {
 public:
  BenchHost(const std::string& address, const std::string& shm) {
    relay::RelayOptions options;
    options.pool.directory = shm;
    relay_ = Relay::Create(options).value();
    relay::ChainMemberOptions member;
    member.on_broken = [](const relay::ChainOrder& order, const absl::Status&) {
      Say("broken " + order.next);
    };
    member_ = std::make_unique<ChainMember>(relay_.get(), relay::TcpTransport::Create({}).value(),
                                            std::move(member));
    const auto listening = member_->Listen(address);
    if (!listening.ok()) Die("listen", listening.status());
    Say("ready " + *listening);
  }

  void Publish(const std::string& job, uint64_t version, int64_t bytes) {
    const auto layout =
        relay::SafetensorsLayout::Create({{"w", relay::DType::kU8, {bytes}}}).value();
    v1::BeginRequest begin;
    begin.set_job(job);
    begin.set_policy_version(version);
    begin.set_header(layout.header());
    begin.set_size_bytes(static_cast<uint64_t>(layout.file_size()));
    begin.set_world_size(1);
    const auto begun = Ask(*relay_, &Relay::Begin, begin);
    const auto file = relay::SharedFile::Open(begun.path(), begin.size_bytes()).value();
    std::mt19937_64 random(version);
    uint8_t* const data = file->bytes().data() + layout.data_offset();
    for (int64_t at = 0; at + 8 <= bytes; at += 8) {
      const uint64_t number = random();
      std::memcpy(data + at, &number, 8);
    }
    v1::CommitRequest commit;
    commit.set_segment_id(begun.segment_id());
    const auto view = relay::SafetensorsView::Parse(file->bytes()).value();
    relay::AddChecksums(relay::DigestBoxes(view, relay::WholeTensors(view.entries())).value(),
                        commit.mutable_tensors());
    Ask(*relay_, &Relay::Commit, commit);
    v1::SealRequest seal;
    seal.set_segment_id(begun.segment_id());
    Ask(*relay_, &Relay::Seal, seal);
    Say(absl::StrCat("published ", Nanoseconds()));
  }

  void Follow(const std::string& job, uint64_t generation, int relays, const std::string& next) {
    absl::Notification done;
    member_->Follow({job, "", "", generation, relays, next == "-" ? "" : next},
                    [&](const absl::Status& status) {
                      if (!status.ok()) Die("follow", status);
                      done.Notify();
                    });
    done.WaitForNotification();
    Say("following");
  }

  void Wait(const std::string& job, uint64_t version) {
    v1::AcquireRequest acquire;
    acquire.set_job(job);
    acquire.set_policy_version(version);
    acquire.mutable_wait()->set_seconds(120);
    const auto lease = Ask(*relay_, &Relay::Acquire, acquire);
    Say(absl::StrCat("has ", Nanoseconds()));
    v1::ReleaseRequest release;
    release.set_lease_id(lease.lease_id());
    Ask(*relay_, &Relay::Release, release);
  }

  void Received() {
    absl::Notification done;
    member_->ReceivedBytes([&](uint64_t bytes) {
      Say(absl::StrCat("received ", bytes));
      done.Notify();
    });
    done.WaitForNotification();
  }

 private:
  std::unique_ptr<Relay> relay_;
  std::unique_ptr<ChainMember> member_;
};

void Sent() {
  std::ifstream file("/sys/class/net/eth0/statistics/tx_bytes");
  uint64_t bytes = 0;
  file >> bytes;
  Say(absl::StrCat("sent ", bytes));
}

void Sink(std::thread& thread) {
  auto io = std::make_shared<asio::io_context>();
  auto acceptor = std::make_shared<tcp::acceptor>(*io, tcp::endpoint(tcp::v4(), 0));
  Say(absl::StrCat("sink ", acceptor->local_endpoint().port()));
  if (thread.joinable()) thread.join();
  thread = std::thread([io, acceptor] {
    tcp::socket socket = acceptor->accept();
    std::vector<char> bytes(1 << 20);
    boost::system::error_code error;
    while (!error) socket.read_some(asio::buffer(bytes), error);
    Say(absl::StrCat("sunk ", Nanoseconds()));
  });
}

void SendPlain(const std::string& address, size_t bytes) {
  const size_t colon = address.rfind(':');
  const std::vector<char> data(bytes, 'x');
  asio::io_context io;
  tcp::socket socket(io);
  socket.connect({asio::ip::make_address(address.substr(0, colon)),
                  static_cast<uint16_t>(std::stoi(address.substr(colon + 1)))});
  Say(absl::StrCat("sending ", Nanoseconds()));
  asio::write(socket, asio::buffer(data));
}

}  // namespace

int RunBenchHost(const std::string& address, const std::string& shm, bool own_shm) {
  // In the mount namespace that `ip netns exec` has made: no other process sees this mount.
  if (own_shm && ::mount("tmpfs", shm.c_str(), "tmpfs", 0, nullptr) != 0) {
    std::perror("bench host: cannot mount its own shared memory");
    return 1;
  }
  SilenceLog();
  BenchHost host(address, shm);
  std::thread sink;
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string command, job, text;
    uint64_t number = 0, version = 0;
    int relays = 0;
    words >> command;
    if (command == "publish" && words >> job >> version >> number) {
      host.Publish(job, version, static_cast<int64_t>(number));
    } else if (command == "follow" && words >> job >> number >> relays >> text) {
      host.Follow(job, number, relays, text);
    } else if (command == "wait" && words >> job >> version) {
      host.Wait(job, version);
    } else if (command == "received") {
      host.Received();
    } else if (command == "sent") {
      Sent();
    } else if (command == "sink") {
      Sink(sink);
    } else if (command == "send" && words >> text >> number) {
      SendPlain(text, number);
    } else {
      Die("command", absl::InvalidArgumentError(line));
    }
  }
  if (sink.joinable()) sink.join();
  return 0;
}

}  // namespace baton::bench
