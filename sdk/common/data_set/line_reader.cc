#include "sdk/common/data_set/line_reader.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "sdk/common/base/cut_text.h"

namespace baton {

void ProblemList::AddFile(const std::string& file, absl::string_view what) {
  problems_.push_back(absl::StrCat(file, ": ", what));
}

void ProblemList::AddLine(const std::string& file, size_t line, absl::string_view what) {
  if (problems_.size() < kMaxProblems) {
    problems_.push_back(absl::StrCat(file, ":", line, ": ", CutText(what)));
  } else {
    ++suppressed_;
  }
}

std::vector<std::string> ProblemList::Take() && {
  if (suppressed_ > 0) {
    problems_.push_back(absl::StrCat("… and ", suppressed_, " more broken lines"));
  }
  return std::move(problems_);
}

absl::StatusOr<LineReader> LineReader::Open(const std::string& file) {
  std::error_code code;
  if (std::filesystem::exists(file, code) && !std::filesystem::is_regular_file(file, code)) {
    return absl::InvalidArgumentError("is not a file; give a JSONL file");  // a pipe would block
  }
  std::ifstream in(file, std::ios::binary);
  if (!in) return absl::NotFoundError("cannot be opened; check the path and its permissions");
  return LineReader(std::move(in));
}

bool LineReader::Next() {
  while (std::getline(in_, line_)) {
    ++number_;
    if (line_.find_first_not_of(" \t\r") != std::string::npos) return true;
  }
  return false;
}

absl::Status LineReader::status() const {
  if (in_.bad()) return absl::DataLossError("cannot be read to its end");
  return absl::OkStatus();
}

}  // namespace baton
