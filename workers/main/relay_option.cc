#include "workers/main/relay_option.h"

#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace baton {
namespace {

bool IsRelayHost(absl::string_view host) {
  const bool brackets = absl::ConsumePrefix(&host, "[") && absl::ConsumeSuffix(&host, "]");
  const absl::string_view never = brackets ? "[]/ " : ":[]/ ";
  return !host.empty() && host.find_first_of(never) == absl::string_view::npos;
}

bool IsPort(absl::string_view text) {
  uint32_t port = 0;
  return !text.empty() && absl::ascii_isdigit(static_cast<unsigned char>(text[0])) &&
         absl::SimpleAtoi(text, &port) && port >= 1 && port <= 65535;
}

}  // namespace

std::string RelayProblem(const std::string& relay) {
  const absl::string_view text = relay;
  const size_t colon = text.rfind(':');
  if (colon != absl::string_view::npos && IsRelayHost(text.substr(0, colon)) &&
      IsPort(text.substr(colon + 1))) {
    return "";
  }
  return absl::StrCat("'", relay,
                      "' is not host:port of this machine's relay, such as 127.0.0.1:7079");
}

}  // namespace baton
