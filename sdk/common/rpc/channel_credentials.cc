#include "sdk/common/rpc/channel_credentials.h"

#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"
#include "sdk/common/base/loopback.h"
#include "sdk/common/base/status_macros.h"

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

/// Credentials that follow changes of the files within `refresh`. A key without its certificate,
/// while both are being replaced, is not taken.
std::shared_ptr<grpc::experimental::CertificateProviderInterface> Watch(
    const std::string& key, const std::string& certificate, const std::string& ca,
    absl::Duration refresh) {
  return std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
      key, certificate, ca, static_cast<unsigned>(absl::ToInt64Seconds(refresh)));
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(
    const TlsFiles& files) {
  if (!files.any()) return grpc::InsecureChannelCredentials();
  BATON_RETURN_IF_ERROR(CheckPair(files));
  const std::string ca = files.ca == "system" ? "" : files.ca;
  for (const auto& [flag, path] :
       {std::pair("--tls-ca", ca), {"--tls-cert", files.certificate}, {"--tls-key", files.key}}) {
    BATON_RETURN_IF_ERROR(ReadPem(flag, path).status());
  }
  if (ca.empty() && files.certificate.empty()) return grpc::SslCredentials({});
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(Watch(files.key, files.certificate, ca, kTlsRefresh));
  if (!ca.empty()) options.watch_root_certs();
  if (!files.certificate.empty()) options.watch_identity_key_cert_pairs();
  return grpc::experimental::TlsCredentials(options);
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const TlsFiles& files, absl::Duration refresh) {
  if (!files.any()) return grpc::InsecureServerCredentials();
  BATON_RETURN_IF_ERROR(CheckPair(files));
  if (files.certificate.empty()) {
    return absl::InvalidArgumentError(
        "--tls-client-ca alone is no TLS: give --tls-cert and --tls-key too");
  }
  for (const auto& [flag, path] : {std::pair("--tls-client-ca", files.ca),
                                   {"--tls-cert", files.certificate},
                                   {"--tls-key", files.key}}) {
    BATON_RETURN_IF_ERROR(ReadPem(flag, path).status());
  }
  grpc::experimental::TlsServerCredentialsOptions options(
      Watch(files.key, files.certificate, files.ca, refresh));
  options.watch_identity_key_cert_pairs();
  if (!files.ca.empty()) {
    options.watch_root_certs();
    options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return grpc::experimental::TlsServerCredentials(options);
}

absl::Status MayShowToken(const std::string& token, const std::string& address, const TlsFiles& tls,
                          bool insecure) {
  if (token.empty() || tls.any() || insecure || IsLoopback(address)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the token would travel to ", address,
      " in clear text; give --tls-ca FILE (or system), or --insecure where the network "
      "is trusted"));
}

}  // namespace baton
