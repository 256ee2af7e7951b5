#include "controller/runtime/files/upload_path.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "absl/strings/str_split.h"
#include "controller/access/caller.h"
#include "sdk/common/base/relative_path.h"

namespace baton::controller {

bool IsSha256(absl::string_view text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

std::optional<UploadPath> ParseUploadPath(absl::string_view path) {
  if (!StaysBelow(path)) return std::nullopt;
  const std::vector<std::string> parts = absl::StrSplit(path, '/');
  if (parts[0] != "files") return std::nullopt;
  if (parts.size() != 4 || !access::ValidId(parts[1]) || !IsSha256(parts[2])) return std::nullopt;
  return UploadPath{parts[1], parts[2], parts[3]};
}

std::string UploadName(const std::string& name) {
  std::string base = std::filesystem::path(name).filename().string();
  for (char& c : base) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '_';
  }
  if (base.size() > 200) base.erase(0, base.size() - 200);
  // Do not cut within a character.
  while (!base.empty() && (static_cast<unsigned char>(base[0]) & 0xc0) == 0x80) base.erase(0, 1);
  return base.empty() || base == "." || base == ".." ? "file" : base;
}

}  // namespace baton::controller
