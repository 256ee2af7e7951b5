// A file mapped read-only into memory.
#ifndef BATON_RELAY_WEIGHTS_MAPPED_FILE_H_
#define BATON_RELAY_WEIGHTS_MAPPED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace baton::relay {

/// Owns the mapping. Movable; the bytes stay where they are. An empty file has no mapping.
class MappedFile {
 public:
  /// NotFound, PermissionDenied … with the path and the system's reason.
  static absl::StatusOr<MappedFile> Open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  absl::Span<const uint8_t> bytes() const { return {static_cast<const uint8_t*>(data_), size_}; }

 private:
  MappedFile(void* data, size_t size) : data_(data), size_(size) {}

  void* data_;
  size_t size_;
};

}  // namespace baton::relay

#endif  // BATON_RELAY_WEIGHTS_MAPPED_FILE_H_
