#include "sdk/rpc/channel_credentials.h"

#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "sdk/base/status_macros.h"

namespace baton {
namespace {

/// "" for no file.
absl::StatusOr<std::string> ReadPem(const std::string& what, const std::string& path) {
  if (path.empty()) return std::string();
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in || text.find("-----BEGIN") == std::string::npos) {
    return absl::NotFoundError(
        absl::StrCat(what, ": ", path, " cannot be read, or is not a PEM file"));
  }
  return text;
}

absl::Status CheckPair(const TlsFiles& files) {
  if (files.certificate.empty() == files.key.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("--tls-cert and --tls-key belong together: give both");
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(
    const TlsFiles& files) {
  if (!files.any()) return grpc::InsecureChannelCredentials();
  BATON_RETURN_IF_ERROR(CheckPair(files));
  grpc::SslCredentialsOptions options;
  if (files.ca != "system") {
    BATON_ASSIGN_OR_RETURN(options.pem_root_certs, ReadPem("--tls-ca", files.ca));
  }
  BATON_ASSIGN_OR_RETURN(options.pem_cert_chain, ReadPem("--tls-cert", files.certificate));
  BATON_ASSIGN_OR_RETURN(options.pem_private_key, ReadPem("--tls-key", files.key));
  return grpc::SslCredentials(options);
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const TlsFiles& files) {
  if (!files.any()) return grpc::InsecureServerCredentials();
  BATON_RETURN_IF_ERROR(CheckPair(files));
  if (files.certificate.empty()) {
    return absl::InvalidArgumentError(
        "--tls-client-ca alone is no TLS: give --tls-cert and --tls-key too");
  }
  grpc::SslServerCredentialsOptions options(
      files.ca.empty() ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                       : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  grpc::SslServerCredentialsOptions::PemKeyCertPair pair;
  BATON_ASSIGN_OR_RETURN(options.pem_root_certs, ReadPem("--tls-client-ca", files.ca));
  BATON_ASSIGN_OR_RETURN(pair.cert_chain, ReadPem("--tls-cert", files.certificate));
  BATON_ASSIGN_OR_RETURN(pair.private_key, ReadPem("--tls-key", files.key));
  options.pem_key_cert_pairs.push_back(std::move(pair));
  return grpc::SslServerCredentials(options);
}

}  // namespace baton
