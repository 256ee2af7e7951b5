#include "relay/segment/segment_header.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "relay/weights/safetensors_reader.h"

namespace baton::relay {

absl::StatusOr<TensorShapes> CheckSegmentHeader(absl::string_view header, uint64_t size_bytes) {
  if (header.empty() || header.size() > size_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("header: ", header.size(), " bytes, in a file of ", size_bytes, " bytes"));
  }
  // Address space for the whole file, memory only for the header.
  void* data = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    return absl::InvalidArgumentError(
        absl::StrCat("size_bytes: ", size_bytes, " can not be mapped"));
  }
  std::memcpy(data, header.data(), header.size());
  const auto view = SafetensorsView::Parse({static_cast<const uint8_t*>(data), size_bytes});
  munmap(data, size_bytes);
  if (!view.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("header: ", view.status().message()));
  }
  if (view->data_offset() != static_cast<int64_t>(header.size())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "header: ", header.size(), " bytes given, its own length says ", view->data_offset()));
  }
  TensorShapes shapes;
  for (const TensorEntry& entry : view->entries()) shapes[entry.name] = entry.shape;
  return shapes;
}

}  // namespace baton::relay
