// The lines of a data file, and the problems of lines.
#ifndef BATON_SDK_COMMON_DATA_SET_LINE_READER_H_
#define BATON_SDK_COMMON_DATA_SET_LINE_READER_H_

#include <cstddef>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton {

/// Lines that a ProblemList has in full.
constexpr size_t kMaxProblems = 20;

/// Problems of files, "FILE: what", and of their lines, "FILE:LINE: what": the first 20 lines, then
/// the number of others. The text about a line is cut (cut_text.h).
class ProblemList {
 public:
  void AddFile(const std::string& file, absl::string_view what);
  void AddLine(const std::string& file, size_t line, absl::string_view what);
  std::vector<std::string> Take() &&;

 private:
  std::vector<std::string> problems_;
  size_t suppressed_ = 0;
};

/// The lines of one file, but for those of white space alone, one after the other. One thread.
class LineReader {
 public:
  /// NOT_FOUND, INVALID_ARGUMENT (a folder; a pipe, which would block). No error has the file's
  /// name.
  static absl::StatusOr<LineReader> Open(const std::string& file);

  /// False at the end and when the rest cannot be read, which status() tells apart.
  [[nodiscard]] bool Next();
  const std::string& line() const { return line_; }
  size_t number() const { return number_; }  ///< Number of line(), from 1.
  absl::Status status() const;

 private:
  explicit LineReader(std::ifstream in) : in_(std::move(in)) {}

  std::ifstream in_;
  std::string line_;
  size_t number_ = 0;
};

}  // namespace baton

#endif  // BATON_SDK_COMMON_DATA_SET_LINE_READER_H_
