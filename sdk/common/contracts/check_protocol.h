// The protocol between a controller and its `baton-worker check`: requests on the program's
// standard input, responses on its standard output, one after the other.
//
// A request is the line
//     check SPEC_BYTES CPU_SECONDS FILTERED_BYTES FOLDER
// and then a JobSpec of SPEC_BYTES, in binary form. A response is the line
//     found BYTES
// and then a ValidateJobResponse of BYTES, in binary form; or the line
//     failed BYTES
// and then a text of BYTES that says why there is none ("was killed by signal 9"). A program that
// cannot begin a check, as the machine is short of memory, processes or files, says so on its
// standard error and ends with exit code 127.
#ifndef BATON_SDK_COMMON_CONTRACTS_CHECK_PROTOCOL_H_
#define BATON_SDK_COMMON_CONTRACTS_CHECK_PROTOCOL_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton {

/// The line before a spec.
struct CheckRequestLine {
  uint64_t spec_bytes = 0;      ///< kMaxCheckSpecBytes at most.
  int64_t cpu_seconds = 0;      ///< Processor time that the check may take; at least 1.
  uint64_t filtered_bytes = 0;  ///< Most that may be written below `folder`, in all files together.
  std::string folder;           ///< For data files that are filtered; empty: there is none.
};

/// The line before an answer.
struct CheckResponseLine {
  bool found = false;  ///< False: "failed".
  uint64_t bytes = 0;
};

/// As a shell ends when it cannot run its program.
inline constexpr int kCheckCannotBeginCode = 127;
inline constexpr uint64_t kMaxCheckSpecBytes = uint64_t{64} << 20;
/// More is not read.
inline constexpr uint64_t kMaxCheckAnswerBytes = uint64_t{16} << 20;
/// Longest line, with its end.
inline constexpr size_t kMaxCheckLineBytes = 8192;

/// With the line's end.
std::string FormatCheckLine(const CheckRequestLine& line);
std::string FormatCheckLine(const CheckResponseLine& line);
/// `line` is without its end. INVALID_ARGUMENT: it is none, or a number is out of bounds. A
/// response may say any number of bytes.
absl::StatusOr<CheckRequestLine> ParseCheckRequestLine(absl::string_view line);
absl::StatusOr<CheckResponseLine> ParseCheckResponseLine(absl::string_view line);

}  // namespace baton

#endif  // BATON_SDK_COMMON_CONTRACTS_CHECK_PROTOCOL_H_
