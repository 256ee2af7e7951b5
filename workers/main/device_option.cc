#include "workers/main/device_option.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace baton {

std::string DeviceProblem(const std::string& device) {
  if (device == "cpu") return "";
  if (device == "cuda" || absl::StartsWith(device, "cuda:") || device == "gpu") {
    return absl::StrCat(
        device,
        " is not supported: baton-worker's built-in engine computes on CPUs (--device cpu). For "
        "GPUs attach a worker of your own, around an engine made for them, with the SDK "
        "(docs/worker-protocol.md)");
  }
  return absl::StrCat("'", device, "' is not a device of baton-worker; supported is cpu");
}

}  // namespace baton
