// Connections over TCP, in clear text or under TLS.
#ifndef BATON_RELAY_TRANSPORT_TCP_TRANSPORT_H_
#define BATON_RELAY_TRANSPORT_TCP_TRANSPORT_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "relay/transport/frame.h"
#include "relay/transport/transport.h"
#include "sdk/common/rpc/tls_files.h"

namespace baton::relay {

struct TcpOptions {
  absl::Duration connect_timeout = absl::Seconds(5);  ///< TLS included; of both ends.
  absl::Duration silence = absl::Seconds(15);         ///< A peer silent for so long is gone.
  int accepted = 64;  ///< Most connections from others at once; more are closed.
  FrameLimits limits;
  /// Other ends are trusted if `ca` signed them, and so is this one. All three files, or none: then
  /// bytes travel in clear text.
  TlsFiles tls;
};

/// Payload is received straight into offered memory, and sent from where it lies.
class TcpTransport : public Transport {
 public:
  /// INVALID_ARGUMENT names the file of `tls` that is missing or cannot be used.
  static absl::StatusOr<std::unique_ptr<TcpTransport>> Create(TcpOptions options);
  ~TcpTransport() override;

  absl::StatusOr<std::string> Listen(const std::string& address, Accepted accepted) override;
  void Connect(const std::string& address, Connected connected) override;
  void Post(std::function<void()> call) override;
  void After(absl::Duration delay, std::function<void()> call) override;
  absl::Time Now() const override;

 private:
  class Impl;
  explicit TcpTransport(std::shared_ptr<Impl> impl);
  const std::shared_ptr<Impl> impl_;
};

}  // namespace baton::relay

#endif  // BATON_RELAY_TRANSPORT_TCP_TRANSPORT_H_
