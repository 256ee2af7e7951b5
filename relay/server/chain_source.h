// A version at this relay, as the links to other relays see it.
#ifndef BATON_RELAY_SERVER_CHAIN_SOURCE_H_
#define BATON_RELAY_SERVER_CHAIN_SOURCE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "baton/chain/v1/chain.pb.h"
#include "relay/server/relay.h"

namespace baton::relay {

/// Gives a lease back with itself. The relay outlives it.
class RelayLease {
 public:
  RelayLease(Relay* relay, std::string lease_id) : relay_(relay), lease_id_(std::move(lease_id)) {}
  ~RelayLease() {
    v1::ReleaseRequest request;
    request.set_lease_id(lease_id_);
    relay_->Release(request, [](const auto&) {});
  }
  RelayLease(const RelayLease&) = delete;
  RelayLease& operator=(const RelayLease&) = delete;

 private:
  Relay* const relay_;
  const std::string lease_id_;
};

/// A version as what differs from an earlier one, complete or still arriving. Lives on the
/// transport's thread, as ChainSource does.
struct ChainDelta {
  explicit ChainDelta(chain::v1::Delta is) : about(std::move(is)) {}
  chain::v1::Delta about;
  std::vector<uint8_t> bytes;  ///< Of the final size.
  uint64_t verified = 0;       ///< The first bytes, which may be forwarded.
};

/// Sealed here, or still arriving. Lives on the transport's thread; its bytes may be read while the
/// object lives.
struct ChainSource {
  std::string segment_id;
  chain::v1::Announce version;  ///< Without what differs by link: transfer, generation, capability.
  absl::Span<const uint8_t> bytes;
  uint64_t verified = 0;              ///< The first bytes, which may be forwarded.
  bool failed = false;                ///< The rest will not come.
  std::shared_ptr<ChainDelta> delta;  ///< Null: the version travels whole.
  bool delta_tried = false;           ///< Whether there was one to make.
  /// In this order, so that the lease ends after the mapping.
  std::shared_ptr<RelayLease> lease;
  std::shared_ptr<const void> mapping;
};

}  // namespace baton::relay

#endif  // BATON_RELAY_SERVER_CHAIN_SOURCE_H_
