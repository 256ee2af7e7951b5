// One end of a TCP connection of TcpTransport.
#ifndef BATON_RELAY_TRANSPORT_TCP_CONNECTION_H_
#define BATON_RELAY_TRANSPORT_TCP_CONNECTION_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "boost/asio/basic_waitable_timer.hpp"
#include "relay/transport/frame.h"
#include "relay/transport/frame_reader.h"
#include "relay/transport/tcp_stream.h"
#include "relay/transport/transport.h"
#include "sdk/common/base/clock.h"

namespace baton::relay {

/// Its handlers run on the executor of the stream's socket, which has one thread.
class TcpConnection : public Connection,
                      private FrameReader::Sink,
                      public std::enable_shared_from_this<TcpConnection> {
 public:
  /// `stream` has shaken hands. A peer from which nothing came for `silence` is gone; a peer is
  /// told three times in that time that this end is there. `ended` is called when the socket is
  /// closed.
  TcpConnection(std::shared_ptr<TcpStream> stream, FrameLimits limits, absl::Duration silence,
                std::function<void()> ended);
  ~TcpConnection() override;

  void Start(std::shared_ptr<ConnectionHandler> handler) override;
  void Send(std::string message) override;
  void Offer(uint64_t region, absl::Span<uint8_t> memory) override {
    reader_.Offer(region, memory);
  }
  void Protect(uint64_t region, uint64_t bytes) override { reader_.Protect(region, bytes); }
  void Withdraw(uint64_t region) override { reader_.Withdraw(region); }
  void Put(uint64_t region, uint64_t offset, absl::Span<const uint8_t> bytes, uint64_t xxh3,
           std::function<void()> done) override;
  void Close(const absl::Status& status) override;
  std::string peer() const override { return peer_; }

 private:
  enum class State { kOpen, kClosing, kClosed };
  struct Outgoing {
    FrameHeader header;
    std::string message;
    absl::Span<const uint8_t> bytes;  ///< Of a put.
    std::function<void()> done;
  };

  void Message(std::string message) override;
  void Put(const PutArrival& put) override;

  void Read();
  absl::Status ReadAll();
  void Enqueue(const Frame& frame, std::string message, absl::Span<const uint8_t> bytes,
               std::function<void()> done);
  void Write();
  void Wrote(const boost::system::error_code& error);
  void Tick();
  void Finish(const absl::Status& status);

  const std::function<void()> ended_;  ///< First: what it holds outlives the stream.
  const std::shared_ptr<TcpStream> stream_;
  const FrameLimits limits_;
  const absl::Duration silence_;
  std::string peer_;

  State state_ = State::kOpen;
  absl::Status closing_;  ///< What Close was given.
  std::shared_ptr<ConnectionHandler> handler_;
  FrameReader reader_;
  std::deque<Outgoing> outgoing_;
  size_t writing_ = 0;  ///< The first of `outgoing_`, which the system has.
  absl::Time last_read_ = BootNow();
  absl::Time last_write_ = BootNow();
  boost::asio::basic_waitable_timer<BootClock> timer_;
};

}  // namespace baton::relay

#endif  // BATON_RELAY_TRANSPORT_TCP_CONNECTION_H_
