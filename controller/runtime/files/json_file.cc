#include "controller/runtime/files/json_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "controller/runtime/files/folders.h"
#include "google/protobuf/util/json_util.h"
#include "sdk/common/base/status_macros.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;

absl::Status BadJson(const fs::path& path, absl::string_view why) {
  return absl::DataLossError(absl::StrCat(path.string(), " ", why));
}

// The whole file; it may grow while it is read, and no more is read than it may have.
absl::StatusOr<std::string> ReadBounded(const fs::path& path) {
  // A pipe at this path must not block the thread.
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0 && errno == EWOULDBLOCK) fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);  // a lease
  if (fd < 0) {
    if (errno == ENOENT || errno == ENOTDIR) {
      return absl::NotFoundError(absl::StrCat("there is no file ", path.string()));
    }
    return BadJson(path, absl::StrCat("cannot be read: ", std::strerror(errno)));
  }
  const absl::Cleanup close = [fd] { ::close(fd); };
  struct stat is = {};
  if (::fstat(fd, &is) != 0 || !S_ISREG(is.st_mode)) return BadJson(path, "is not a regular file");
  const auto size = static_cast<uint64_t>(is.st_size);
  if (size > kMostJsonBytes) {
    return BadJson(path, absl::StrCat("has ", size, " bytes, more than ", kMostJsonBytes));
  }
  std::string text(size, '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::read(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return BadJson(path, absl::StrCat("cannot be read: ", std::strerror(errno)));
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  text.resize(done);
  return text;
}

// Writes a file that was not there before. Workers can write into the folder: a link or a pipe at
// this path must neither lead elsewhere nor block the thread.
absl::Status WriteNew(const fs::path& path, absl::string_view text) {
  ::unlink(path.c_str());  // what a crash left behind
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (fd < 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot create ", path.string(), ": ", std::strerror(errno)));
  }
  const absl::Cleanup close = [fd] { ::close(fd); };
  while (!text.empty()) {
    const ssize_t wrote = ::write(fd, text.data(), text.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) {
      return absl::ResourceExhaustedError(absl::StrCat("cannot write ", path.string(), ": ",
                                                       std::strerror(errno),
                                                       "; free space under the data root"));
    }
    text.remove_prefix(static_cast<size_t>(wrote));
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t CountJsonValues(absl::string_view json) {
  uint64_t values = 0;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string && c == '\\') {
      ++i;  // what follows is no end of the string
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string && (c == ',' || c == '{' || c == '[')) {
      ++values;
    }
  }
  return values;
}

absl::Status ReadJsonFile(const fs::path& path, google::protobuf::Message* message) {
  const absl::StatusOr<std::string> text = ReadBounded(path);
  if (!text.ok()) return text.status();
  if (const uint64_t values = CountJsonValues(*text); values > kMostJsonValues) {
    return BadJson(path, absl::StrCat("has ", values, " values, more than ", kMostJsonValues));
  }
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  if (google::protobuf::util::JsonStringToMessage(*text, message, options).ok()) {
    return absl::OkStatus();
  }
  return BadJson(path, "cannot be read");
}

absl::Status ReplaceJsonFile(const fs::path& path, const google::protobuf::Message& message) {
  BATON_ASSIGN_OR_RETURN(const std::string json, JsonText(message));
  const fs::path next = path.string() + ".new";
  BATON_RETURN_IF_ERROR(WriteNew(next, json));
  BATON_RETURN_IF_ERROR(SyncFile(next));
  std::error_code code;
  fs::rename(next, path, code);
  if (code) {
    return absl::UnavailableError(
        absl::StrCat("cannot rename ", next.string(), ": ", code.message()));
  }
  return SyncFolder(path.parent_path());
}

absl::StatusOr<std::string> JsonText(const google::protobuf::Message& message) {
  std::string json;
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.preserve_proto_field_names = true;
  if (!google::protobuf::util::MessageToJsonString(message, &json, options).ok()) {
    return absl::InternalError("cannot be written as JSON");
  }
  if (json.size() > kMostJsonBytes || CountJsonValues(json) > kMostJsonValues) {
    return absl::OutOfRangeError(absl::StrCat("has ", json.size(), " bytes as JSON, or more than ",
                                              kMostJsonValues, " values; such a file is not read"));
  }
  return json;
}

}  // namespace baton::controller
