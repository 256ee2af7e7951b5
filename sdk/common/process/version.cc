#include "sdk/common/process/version.h"

#include "absl/strings/str_cat.h"
#include "version/commit.h"

namespace baton {

absl::string_view Version() { return BATON_VERSION; }

absl::string_view Commit() { return BATON_COMMIT; }

std::string VersionLine(absl::string_view program) {
  std::string line = absl::StrCat(program, " ", Version());
  if (!Commit().empty()) absl::StrAppend(&line, " (commit ", Commit(), ")");
  return line;
}

}  // namespace baton
