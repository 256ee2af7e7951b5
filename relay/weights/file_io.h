// Files that are either wholly there or not at all.
#ifndef BATON_RELAY_WEIGHTS_FILE_IO_H_
#define BATON_RELAY_WEIGHTS_FILE_IO_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace baton::relay {

/// Writes to a temporary file beside `path`; Commit fsyncs it, renames it to `path` and fsyncs the
/// directory. Destroyed without Commit, it leaves nothing behind. A full disk is
/// ResourceExhausted; other failures carry the system's reason; all name the path.
class AtomicFile {
 public:
  static absl::StatusOr<AtomicFile> Create(const std::string& path);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  [[nodiscard]] absl::Status Append(absl::Span<const uint8_t> bytes);
  [[nodiscard]] absl::Status Commit();

 private:
  AtomicFile(std::string path, std::string temporary, int fd)
      : path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd) {}

  std::string path_;
  std::string temporary_;
  int fd_;  ///< -1 once committed or moved from.
};

/// AtomicFile in one call.
[[nodiscard]] absl::Status WriteFileAtomically(const std::string& path, absl::string_view content);

/// NotFound and so on with the path. Files above `max_bytes` are InvalidArgument.
absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes = int64_t{1} << 30);

/// Makes renames inside `dir` survive a power cut.
[[nodiscard]] absl::Status SyncDirectory(const std::string& dir);

}  // namespace baton::relay

#endif  // BATON_RELAY_WEIGHTS_FILE_IO_H_
