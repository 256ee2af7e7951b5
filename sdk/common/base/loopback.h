// Recognition of addresses that stay on this machine.
#ifndef BATON_SDK_COMMON_BASE_LOOPBACK_H_
#define BATON_SDK_COMMON_BASE_LOOPBACK_H_

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace baton {

/// True for "localhost", "127.x.y.z" and "::1", with brackets or without.
inline bool IsLoopbackHost(absl::string_view host) {
  if (host == "localhost" || host == "[::1]" || host == "::1") return true;
  // Digits and dots only: "127.example.org" is a name, and may be any machine's.
  return absl::StartsWith(host, "127.") &&
         host.find_first_not_of("0123456789.") == absl::string_view::npos;
}

/// True for such a host with a port, as gRPC writes addresses ("ipv4:127.0.0.1:7077" too), and for
/// "unix:path".
inline bool IsLoopback(absl::string_view address) {
  if (absl::StartsWith(address, "unix:") || absl::StartsWith(address, "unix-abstract:")) {
    return true;
  }
  for (absl::string_view scheme : {"ipv4:", "ipv6:", "dns:///", "dns:"}) {
    if (absl::ConsumePrefix(&address, scheme)) break;
  }
  return IsLoopbackHost(address.substr(0, address.rfind(':')));
}

}  // namespace baton

#endif  // BATON_SDK_COMMON_BASE_LOOPBACK_H_
