// Hashes, message authentication and random secrets (OpenSSL's libcrypto).
#ifndef BATON_SDK_COMMON_BASE_DIGEST_H_
#define BATON_SDK_COMMON_BASE_DIGEST_H_

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton {

/// SHA-256 (FIPS 180-4), 32 bytes.
std::string Sha256(absl::string_view data);

/// The digest of bytes that come in pieces. One thread at a time.
class Sha256Hasher {
 public:
  Sha256Hasher();
  ~Sha256Hasher();
  Sha256Hasher(const Sha256Hasher&) = delete;
  Sha256Hasher& operator=(const Sha256Hasher&) = delete;

  void Add(absl::string_view data);
  /// 32 bytes. The last call.
  std::string Finish();

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

/// HMAC-SHA-256 (RFC 2104) over the parts, each preceded by its length, in hexadecimal: 64 digits.
std::string Mac(absl::string_view key, std::initializer_list<absl::string_view> parts);
/// Compares in a time that does not tell where two texts of one length differ.
bool SameSecret(absl::string_view a, absl::string_view b);
/// `bytes` random bytes of the system's generator, in hexadecimal. INTERNAL: there are none.
absl::StatusOr<std::string> RandomHex(size_t bytes);

}  // namespace baton

#endif  // BATON_SDK_COMMON_BASE_DIGEST_H_
