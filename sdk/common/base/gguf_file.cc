#include "sdk/common/base/gguf_file.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace baton {
namespace {

namespace fs = std::filesystem;

bool IsGgufName(const fs::path& path) {
  return absl::AsciiStrToLower(path.extension().string()) == ".gguf";
}

// The path itself, or the first GGUF file in this folder; empty: there is none.
std::string GgufFileAt(const fs::path& path) {
  std::error_code code;
  if (!fs::is_directory(path, code)) return IsGgufName(path) ? path.string() : "";
  for (fs::directory_iterator entry(path, code), end; !code && entry != end;
       entry.increment(code)) {
    if (IsGgufName(entry->path())) return entry->path().string();
  }
  return "";
}

}  // namespace

std::string GgufHint(const std::string& path) {
  const std::string file = GgufFileAt(path);
  if (file.empty()) return "";
  return absl::StrCat(
      file,
      " is a GGUF file, and Baton reads Hugging Face directories: give the one that "
      "the file was made of, or convert it (examples/smollm2/README.md says how)");
}

}  // namespace baton
