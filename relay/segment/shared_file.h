// One file in shared memory, mapped writable.
#ifndef BATON_RELAY_SEGMENT_SHARED_FILE_H_
#define BATON_RELAY_SEGMENT_SHARED_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace baton::relay {

/// Owns the mapping, and a file that Create made: it is unlinked at destruction. A file of Open
/// stays. Any thread may write bytes; the other members are for one thread at a time.
class SharedFile {
 public:
  /// A new file of this size. Its memory is reserved and faulted in, so that later writes cannot
  /// fail (an unreserved page of a full shared memory raises SIGBUS). ResourceExhausted: not enough
  /// memory; then nothing is left behind. `size_bytes` >= 1.
  static absl::StatusOr<std::unique_ptr<SharedFile>> Create(const std::string& path,
                                                            uint64_t size_bytes);
  /// Opens an existing file for the process that fills it. FailedPrecondition: it has another size.
  static absl::StatusOr<std::unique_ptr<SharedFile>> Open(const std::string& path,
                                                          uint64_t size_bytes);
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;
  ~SharedFile();

  const std::string& path() const { return path_; }
  uint64_t size_bytes() const { return size_bytes_; }
  absl::Span<uint8_t> bytes() const { return {data_, static_cast<size_t>(size_bytes_)}; }

  /// Only for files of Create. Gives the file another name and a size that is no larger; the rest
  /// of its memory goes back to the system. No other process may have it mapped.
  [[nodiscard]] absl::Status Reuse(const std::string& path, uint64_t size_bytes);

 private:
  SharedFile(std::string path, uint8_t* data, uint64_t size_bytes, bool owner)
      : path_(std::move(path)),
        data_(data),
        size_bytes_(size_bytes),
        mapped_bytes_(size_bytes),
        owner_(owner) {}

  std::string path_;
  uint8_t* const data_;
  uint64_t size_bytes_;
  const uint64_t mapped_bytes_;
  const bool owner_;
};

}  // namespace baton::relay

#endif  // BATON_RELAY_SEGMENT_SHARED_FILE_H_
