// A reader of safetensors: the format of checkpoints on disk and of segments in shared memory.
//
//   8 bytes  little-endian length n of the header
//   n bytes  JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, …,
//            "__metadata__": {"key": "value"}}, starting with '{', padded with spaces
//   rest     data; the offsets count from here and cover it without holes or overlaps
//
// The bytes come from outside, so everything is checked before anything is used: whatever they
// are, the answer is a view or an InvalidArgument error that names the problem.
#ifndef BATON_RELAY_WEIGHTS_SAFETENSORS_READER_H_
#define BATON_RELAY_WEIGHTS_SAFETENSORS_READER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "relay/weights/box.h"
#include "relay/weights/dtype.h"
#include "relay/weights/mapped_file.h"

namespace baton::relay {

/// Largest header accepted, as in the reference implementation.
inline constexpr int64_t kMaxSafetensorsHeaderBytes = 100'000'000;

struct TensorEntry {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  int64_t begin = 0;  ///< First byte, counted from the start of the data.
  int64_t end = 0;    ///< One past the last byte.

  int64_t size_bytes() const { return end - begin; }
};

/// A box of the tensor of this name.
struct TensorBox {
  std::string name;
  Box box;
};

/// Every tensor of a file, whole.
std::vector<TensorBox> WholeTensors(absl::Span<const TensorEntry> entries);

/// A parsed header over bytes that someone else keeps alive and unchanged. Copyable, immutable,
/// safe to share among threads.
class SafetensorsView {
 public:
  static absl::StatusOr<SafetensorsView> Parse(absl::Span<const uint8_t> file);

  /// Sorted by name.
  const std::vector<TensorEntry>& entries() const { return entries_; }
  /// Null if there is none of that name.
  const TensorEntry* Find(absl::string_view name) const;
  /// The little-endian, row-major elements of `entry` (which must be of this view).
  absl::Span<const uint8_t> Data(const TensorEntry& entry) const {
    return data_.subspan(static_cast<size_t>(entry.begin), static_cast<size_t>(entry.size_bytes()));
  }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// The offset at which the data starts in the file.
  int64_t data_offset() const { return data_offset_; }

 private:
  std::vector<TensorEntry> entries_;
  std::map<std::string, std::string> metadata_;
  absl::Span<const uint8_t> data_;
  int64_t data_offset_ = 0;
};

/// A file mapped into memory and its view. The file must not be truncated while this lives (the
/// system would raise SIGBUS); what is written by AtomicFile never is.
class SafetensorsFile {
 public:
  /// NotFound, or InvalidArgument; both name the path.
  static absl::StatusOr<std::unique_ptr<SafetensorsFile>> Open(const std::string& path);

  const SafetensorsView& view() const { return view_; }
  const std::string& path() const { return path_; }

 private:
  SafetensorsFile(std::string path, MappedFile file, SafetensorsView view)
      : path_(std::move(path)), file_(std::move(file)), view_(std::move(view)) {}

  std::string path_;
  MappedFile file_;
  SafetensorsView view_;
};

}  // namespace baton::relay

#endif  // BATON_RELAY_WEIGHTS_SAFETENSORS_READER_H_
