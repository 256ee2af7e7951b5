#include "sdk/common/schema/hub_name.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace baton {
namespace {

// OWNER/NAME of letters, digits, '-', '_' and '.', as the hub has them.
bool IsHubName(absl::string_view path) {
  const std::vector<absl::string_view> parts = absl::StrSplit(path, '/');
  return parts.size() == 2 && std::all_of(parts.begin(), parts.end(), [](absl::string_view part) {
           return !part.empty() && part[0] != '.' &&
                  std::all_of(part.begin(), part.end(), [](char c) {
                    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' ||
                           c == '_' || c == '.';
                  });
         });
}

}  // namespace

std::string HubNameHint(absl::string_view path) {
  if (!IsHubName(path)) return "";
  const absl::string_view name = path.substr(path.find('/') + 1);
  return absl::StrCat("'", path,
                      "' reads as a name on the Hugging Face hub, and Baton downloads nothing: "
                      "fetch it with `hf download ",
                      path, " --local-dir /models/", name,
                      "` to a folder that controller and workers see, and give that folder");
}

}  // namespace baton
