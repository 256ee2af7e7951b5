#include "controller/api/access.h"

#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "sdk/rpc/error.h"

namespace baton::api {

absl::StatusOr<Access> Access::FromFile(const std::string& path) {
  std::ifstream in(path);
  if (!in) {
    return absl::NotFoundError(
        absl::StrCat("token file ", path, " cannot be opened; write one token a line into it"));
  }
  std::set<std::string> tokens;
  for (std::string line; std::getline(in, line);) {
    const std::string token(absl::StripAsciiWhitespace(line));
    if (!token.empty() && token[0] != '#') tokens.insert(token);
  }
  if (tokens.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("token file ", path, " holds no token; write one token a line into it"));
  }
  return Access(std::move(tokens));
}

absl::Status Access::Check(const grpc::ServerContextBase& context) const {
  if (tokens_.empty()) return absl::OkStatus();
  const auto& metadata = context.client_metadata();
  const auto it = metadata.find("authorization");
  if (it != metadata.end()) {
    const std::string value(it->second.data(), it->second.size());
    if (absl::StartsWith(value, "Bearer ") && tokens_.count(value.substr(7)) > 0) {
      return absl::OkStatus();
    }
  }
  return MakeError(absl::StatusCode::kUnauthenticated, "TOKEN",
                   it == metadata.end() ? "this controller asks for a token; give --token-file"
                                        : "this token is not known to the controller");
}

bool IsLoopback(absl::string_view address) {
  if (absl::StartsWith(address, "unix:")) return true;
  const size_t colon = address.rfind(':');
  const absl::string_view host = address.substr(0, colon);
  if (host == "localhost" || host == "[::1]") return true;
  // Digits and dots only: "127.example.org" is a name, and may be any machine's.
  return absl::StartsWith(host, "127.") &&
         host.find_first_not_of("0123456789.") == absl::string_view::npos;
}

}  // namespace baton::api
