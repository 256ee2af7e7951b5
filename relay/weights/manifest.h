// What a segment or a checkpoint part holds: for each tensor its global shape and the n-d boxes
// present, each with its place in the bytes.
#ifndef BATON_RELAY_WEIGHTS_MANIFEST_H_
#define BATON_RELAY_WEIGHTS_MANIFEST_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "relay/weights/box.h"
#include "relay/weights/dtype.h"
#include "relay/weights/reshard.h"
#include "relay/weights/safetensors_reader.h"

namespace baton::relay {

/// One box of a tensor, row-major without gaps at bytes [offset, offset + size).
struct ManifestPiece {
  Box box;
  int64_t offset_bytes = 0;  ///< From the start of the file or segment.
  int64_t size_bytes = 0;    ///< box.volume() elements.
  std::string checksum;  ///< As its writer defines it, e.g. "xxh3:0123456789abcdef"; may be empty.
};

struct ManifestTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  ///< Of the whole tensor.
  std::vector<ManifestPiece> pieces;

  /// The pieces as sources or destinations of a reshard plan, all in buffer `buffer`.
  std::vector<PlacedBox> Placed(int buffer) const;
};

/// A plain value. `Validate`d ones (all that FromJson returns) have consistent sizes.
struct Manifest {
  int64_t total_bytes = 0;              ///< Size of the file or segment.
  std::vector<ManifestTensor> tensors;  ///< Sorted by name.
  std::map<std::string, std::string> metadata;

  /// Every tensor whole, as a safetensors image of `file_size` bytes has it.
  static Manifest Whole(absl::Span<const TensorEntry> entries, int64_t data_offset,
                        int64_t file_size);

  const ManifestTensor* Find(absl::string_view name) const;

  /// InvalidArgument naming tensor and piece: names not sorted or twice, a box outside its shape,
  /// a size that is not the box's, bytes outside the total.
  [[nodiscard]] absl::Status Validate() const;

  /// FailedPrecondition naming the first box of a tensor that no piece has.
  [[nodiscard]] absl::Status CheckComplete() const;

  std::string ToJson() const;
  /// InvalidArgument for anything that ToJson would not have written.
  static absl::StatusOr<Manifest> FromJson(absl::string_view json);
};

}  // namespace baton::relay

#endif  // BATON_RELAY_WEIGHTS_MANIFEST_H_
