// A relay as a member of chains: for each job it receives versions from the relay before it, and
// sends them to the one after it.
//
//   trainer ──► relay A ──chunks──► relay B ──chunks──► relay C      every relay forwards what it
//   has
//                                                                   verified, before it has all of
//                                                                   it
#ifndef BATON_RELAY_SERVER_CHAIN_MEMBER_H_
#define BATON_RELAY_SERVER_CHAIN_MEMBER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "relay/server/chain_link.h"
#include "relay/server/chain_receiver.h"
#include "relay/server/relay.h"
#include "relay/transport/transport.h"

namespace baton::relay {

struct ChainMemberOptions {
  ChainLinkOptions link;
  ChainReceiverOptions receiver;
  /// The connection to the next relay broke, or cannot be made; it is tried again until another
  /// order comes. On the transport's thread; must not block. May be null.
  std::function<void(const ChainOrder& order, const absl::Status& status)> on_broken;
  /// A version has become visible here, or a connection broke. On the transport's thread; must not
  /// block. May be null.
  std::function<void()> on_changed;
};

struct ChainReport {
  uint64_t generation = 0;  ///< Of the newest order; 0: there was none.
  bool connected = false;   ///< To the next relay.
  absl::Status last_error;  ///< The link's: the last failure after which no version was sealed.
  uint64_t put_bytes = 0;   ///< Of versions, by all links of the job so far.
  ChainHop last_hop;        ///< Of the link to the next relay.
};

/// Thread-safe.
class ChainMember {
 public:
  template <typename T>
  using Done = std::function<void(T)>;

  /// `relay` outlives it, and has no other member. Takes part in nothing until Listen and Follow.
  ChainMember(Relay* relay, std::unique_ptr<Transport> transport, ChainMemberOptions options);
  ~ChainMember();

  /// Receives versions at this address. Answers it with the real port; errors of Transport::Listen.
  absl::StatusOr<std::string> Listen(const std::string& address);

  /// From now on the job's versions go to `order.next`: those that this relay has, that arrive, and
  /// that are sealed later. The next relay is asked what it has of each, so a new order after a
  /// failure costs no byte twice. PERMISSION_DENIED (CAPABILITY); FAILED_PRECONDITION
  /// (STALE_CHAIN): a newer order is known, or another one of this generation; INVALID_ARGUMENT.
  void Follow(ChainOrder order, Done<absl::Status> done);

  /// The job is over: its link ends, and so does what is known of it.
  void Forget(const std::string& job, const std::string& job_uid);

  void Report(const std::string& job, const std::string& job_uid, Done<ChainReport> done) const;
  /// Bytes of versions that were received and verified.
  void ReceivedBytes(Done<uint64_t> done) const;

 private:
  class Core;
  const std::shared_ptr<boost::asio::thread_pool> file_thread_;  ///< Maps files.
  std::unique_ptr<Transport> transport_;
  const std::shared_ptr<Mailbox> mailbox_;
  std::shared_ptr<Core> core_;
};

}  // namespace baton::relay

#endif  // BATON_RELAY_SERVER_CHAIN_MEMBER_H_
