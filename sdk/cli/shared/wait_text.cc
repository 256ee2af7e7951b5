#include "sdk/cli/shared/wait_text.h"

#include "absl/strings/str_cat.h"
#include "sdk/cli/shared/table.h"

namespace baton::cli {

std::string PhaseText(const std::string& phase, int64_t done, int64_t total) {
  return total > 0 ? absl::StrCat(phase, " ", done, "/", total) : phase;
}

std::string WaitText(const v1::Wait& wait) {
  std::string text = absl::StrCat(wait.subject(), " has waited ",
                                  ShortDuration(static_cast<double>(wait.since().seconds())),
                                  " for ", wait.cause());
  if (wait.has_deadline_in()) {
    absl::StrAppend(&text, "; in ",
                    ShortDuration(static_cast<double>(wait.deadline_in().seconds())), " ",
                    wait.action());
  } else if (!wait.action().empty()) {
    absl::StrAppend(&text, "; ", wait.action());
  }
  return text;
}

}  // namespace baton::cli
