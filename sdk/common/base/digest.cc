#include "sdk/common/base/digest.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <cstdint>

#include "absl/strings/escaping.h"

namespace baton {

std::string Sha256(absl::string_view data) {
  std::string out(32, '\0');
  unsigned int size = 0;
  EVP_Digest(data.data(), data.size(), reinterpret_cast<unsigned char*>(&out[0]), &size,
             EVP_sha256(), nullptr);
  return out;
}

struct Sha256Hasher::State {
  EVP_MD_CTX* const context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256Hasher::Sha256Hasher() : state_(std::make_unique<State>()) {
  EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr);
}

Sha256Hasher::~Sha256Hasher() = default;

void Sha256Hasher::Add(absl::string_view data) {
  EVP_DigestUpdate(state_->context, data.data(), data.size());
}

std::string Sha256Hasher::Finish() {
  std::string out(32, '\0');
  unsigned int size = 0;
  EVP_DigestFinal_ex(state_->context, reinterpret_cast<unsigned char*>(&out[0]), &size);
  return out;
}

std::string Mac(absl::string_view key, std::initializer_list<absl::string_view> parts) {
  std::string text;
  for (const absl::string_view part : parts) {
    const uint64_t size = part.size();
    text.append(reinterpret_cast<const char*>(&size), sizeof(size));
    text.append(part.data(), part.size());
  }
  std::string out(32, '\0');
  unsigned int size = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(),
       reinterpret_cast<unsigned char*>(&out[0]), &size);
  return absl::BytesToHexString(out);
}

bool SameSecret(absl::string_view a, absl::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

absl::StatusOr<std::string> RandomHex(size_t bytes) {
  std::string out(bytes, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(&out[0]), static_cast<int>(bytes)) != 1) {
    return absl::InternalError("the system gives no random numbers: no secret can be made");
  }
  return absl::BytesToHexString(out);
}

}  // namespace baton
