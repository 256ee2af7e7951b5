#include "controller/runtime/folders.h"

#include <system_error>

#include "absl/strings/str_cat.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;

absl::Status Failed(const fs::path& from, const fs::path& to, const std::error_code& code) {
  const std::string message = absl::StrCat("cannot keep a copy of ", from.string(), " as ",
                                           to.string(), ": ", code.message());
  return code == std::errc::no_space_on_device ? absl::ResourceExhaustedError(message)
                                               : absl::UnavailableError(message);
}

}  // namespace

absl::Status LinkFile(const fs::path& from, const fs::path& to) {
  std::error_code code;
  fs::create_directories(to.parent_path(), code);
  fs::remove(to, code);
  fs::create_hard_link(from, to, code);
  if (code) fs::copy_file(from, to, code);
  return code ? Failed(from, to, code) : absl::OkStatus();
}

absl::Status LinkFolder(const fs::path& from, const fs::path& to) {
  std::error_code code;
  fs::remove_all(to, code);
  fs::create_directories(to, code);
  for (fs::recursive_directory_iterator it(from, code), end; !code && it != end;
       it.increment(code)) {
    if (it->is_directory()) continue;
    const absl::Status linked = LinkFile(it->path(), to / fs::relative(it->path(), from));
    if (!linked.ok()) return linked;
  }
  return code ? Failed(from, to, code) : absl::OkStatus();
}

}  // namespace baton::controller
