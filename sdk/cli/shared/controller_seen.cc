#include "sdk/cli/shared/controller_seen.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "sdk/cli/shared/table.h"
#include "sdk/common/rpc/channel_credentials.h"

namespace baton::cli {
namespace {

constexpr absl::Duration kFirstAgain = absl::Seconds(15);

std::string Lasted(const Outage& outage) {
  return ShortDuration(absl::ToDoubleSeconds(outage.lasted));
}

}  // namespace

ServerSeen LookAtController(const std::string& address, const TlsFiles& tls) {
  const auto credentials = MakeChannelCredentials(tls);
  if (!credentials.ok()) {
    return {ServerSeen::What::kAway, std::string(credentials.status().message())};
  }
  return LookAtServer(address, *credentials);
}

std::string SeenWord(const ServerSeen& seen) {
  switch (seen.what) {
    case ServerSeen::What::kReady:
      return "answers";
    case ServerSeen::What::kNotReady:
      return "not_ready";
    case ServerSeen::What::kOther:
      return "no_controller";
    case ServerSeen::What::kSilent:
      return "silent";
    case ServerSeen::What::kNothingListens:
      return "nothing_listens";
    case ServerSeen::What::kAway:
      break;
  }
  return "away";
}

std::string SeenText(const std::string& address, const ServerSeen& seen) {
  switch (seen.what) {
    case ServerSeen::What::kReady:
      return absl::StrCat("the controller at ", address, " answers");
    case ServerSeen::What::kNotReady:
      return absl::StrCat("the controller at ", address,
                          " answers, and is not ready: ", seen.detail,
                          ". It goes on by itself once that is over; see its log");
    case ServerSeen::What::kOther:
      return absl::StrCat("what answers at ", address, " is not a controller of Baton (",
                          seen.detail, "): give the right address with --controller");
    case ServerSeen::What::kSilent:
      return absl::StrCat("something listens at ", address,
                          " but does not answer: a controller that is stopped or overloaded, or "
                          "another program, or only one side uses TLS (--tls-ca). Look at that "
                          "process and its log, or give another --controller");
    case ServerSeen::What::kNothingListens:
      return absl::StrCat("nothing listens at ", address,
                          ": start a cluster with `baton up`, or give another --controller");
    case ServerSeen::What::kAway:
      break;
  }
  return absl::StrCat("the machine of ", address, " does not answer (", seen.detail,
                      "): is the network up, and is the address right? --controller gives another");
}

std::string OutageNotice::TextOf(const Outage& outage) {
  const bool spoken = next_ > absl::ZeroDuration();
  if (outage.over) {
    next_ = absl::ZeroDuration();
    if (!spoken) return "";
    return absl::StrCat("the controller at ", address_, " answers again after ", Lasted(outage),
                        "; nothing is left out");
  }
  if (!spoken) {
    next_ = kFirstAgain;
    return absl::StrCat("no connection to the controller at ", address_, " (",
                        outage.error.message(), "); it is tried again, and the job goes on");
  }
  if (outage.lasted < next_) return "";
  next_ *= 2;
  return absl::StrCat("still no connection to the controller at ", address_, " after ",
                      Lasted(outage), " (", outage.error.message(), ")");
}

void SayOutage(const std::string& text) {
  if (!text.empty()) std::fprintf(stderr, "baton: %s\n", ForTerminal(text).c_str());
}

}  // namespace baton::cli
