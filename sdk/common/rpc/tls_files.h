#ifndef BATON_SDK_COMMON_RPC_TLS_FILES_H_
#define BATON_SDK_COMMON_RPC_TLS_FILES_H_

#include <string>

namespace baton {

/// Paths of PEM files; all empty: no TLS.
struct TlsFiles {
  /// Authorities to trust. A client's: they signed the server's certificate ("system": the
  /// machine's own list). A server's: they signed its clients' (empty: clients need none).
  std::string ca;
  std::string certificate;  ///< This side's certificate. A client needs one only for mutual TLS.
  std::string key;          ///< Key of the certificate.

  bool any() const { return !ca.empty() || !certificate.empty() || !key.empty(); }
};

}  // namespace baton

#endif  // BATON_SDK_COMMON_RPC_TLS_FILES_H_
