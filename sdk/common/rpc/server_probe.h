// A probe of an address: whether a server answers there, something else, or nothing.
#ifndef BATON_SDK_COMMON_RPC_SERVER_PROBE_H_
#define BATON_SDK_COMMON_RPC_SERVER_PROBE_H_

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "grpcpp/security/credentials.h"

namespace baton {

struct ServerSeen {
  enum class What {
    kReady,           ///< Answers that it serves.
    kNotReady,        ///< Answers that it lives and cannot work now; `detail` says why.
    kOther,           ///< Answers, but not as a server of Baton; `detail`: what.
    kSilent,          ///< Accepts connections and does not answer.
    kNothingListens,  ///< The machine refuses connections to this port.
    kAway,            ///< The machine does not answer, or has no address; `detail`: the error.
  };
  What what = What::kAway;
  std::string detail;
};

/// Asks the health service at `address` (HealthService), with a connection of its own. Blocks for
/// little more than twice `limit`. Needs no token.
ServerSeen LookAtServer(const std::string& address,
                        const std::shared_ptr<grpc::ChannelCredentials>& credentials,
                        absl::Duration limit = absl::Seconds(2));

}  // namespace baton

#endif  // BATON_SDK_COMMON_RPC_SERVER_PROBE_H_
