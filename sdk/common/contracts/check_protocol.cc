#include "sdk/common/contracts/check_protocol.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace baton {
namespace {

absl::Status NoCheckLine(absl::string_view line) {
  return absl::InvalidArgumentError(
      absl::StrCat("'", absl::CHexEscape(line.substr(0, 100)), "' is no line of this protocol"));
}

}  // namespace

std::string FormatCheckLine(const CheckRequestLine& line) {
  return absl::StrCat("check ", line.spec_bytes, " ", line.cpu_seconds, " ", line.filtered_bytes,
                      " ", line.folder, "\n");
}

std::string FormatCheckLine(const CheckResponseLine& line) {
  return absl::StrCat(line.found ? "found " : "failed ", line.bytes, "\n");
}

absl::StatusOr<CheckRequestLine> ParseCheckRequestLine(absl::string_view line) {
  const std::vector<absl::string_view> words = absl::StrSplit(line, absl::MaxSplits(' ', 4));
  CheckRequestLine out;
  if (words.size() != 5 || words[0] != "check" || !absl::SimpleAtoi(words[1], &out.spec_bytes) ||
      out.spec_bytes > kMaxCheckSpecBytes || !absl::SimpleAtoi(words[2], &out.cpu_seconds) ||
      out.cpu_seconds < 1 || !absl::SimpleAtoi(words[3], &out.filtered_bytes)) {
    return NoCheckLine(line);
  }
  out.folder = std::string(words[4]);
  return out;
}

absl::StatusOr<CheckResponseLine> ParseCheckResponseLine(absl::string_view line) {
  const std::pair<absl::string_view, absl::string_view> words =
      absl::StrSplit(line, absl::MaxSplits(' ', 1));
  CheckResponseLine out;
  out.found = words.first == "found";
  if ((!out.found && words.first != "failed") || !absl::SimpleAtoi(words.second, &out.bytes)) {
    return NoCheckLine(line);
  }
  return out;
}

}  // namespace baton
