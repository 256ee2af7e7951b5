// Checksums of the boxes that make up the tensors of a segment. One rank that writes whole tensors
// gives one checksum a tensor; ranks that divide a tensor give one for each box.
#ifndef BATON_RELAY_SEGMENT_CHECKSUM_H_
#define BATON_RELAY_SEGMENT_CHECKSUM_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "relay/weights/safetensors_reader.h"

namespace baton::relay {

/// XXH3-64 (seed 0) of the elements of a box, row-major, as if they lay without gaps.
struct TensorDigest {
  std::string name;
  uint64_t xxh3 = 0;
  Box box = {};  ///< Without dimensions: the whole tensor, whatever its shape.

  bool whole() const { return box.begin.empty() && box.end.empty(); }
  friend bool operator==(const TensorDigest& a, const TensorDigest& b) {
    return a.name == b.name && a.xxh3 == b.xxh3 && a.box == b.box;
  }
};

uint64_t Xxh3(absl::Span<const uint8_t> bytes);

/// The digests of these boxes, in their order. A box of a whole tensor is named as the tensor.
/// InvalidArgument: no such tensor, or a box outside of it.
absl::StatusOr<std::vector<TensorDigest>> DigestBoxes(const SafetensorsView& view,
                                                      absl::Span<const TensorBox> boxes);

/// Digests of boxes whose elements are just being written, part after part: what is added is read
/// while the processor's caches still have it. One thread.
class BoxDigests {
 public:
  /// `view`: of the file that is written; lives as long.
  explicit BoxDigests(const SafetensorsView* view);
  ~BoxDigests();
  /// `part` of `box` is written. The parts of a box come in a row: slices of its first dimension,
  /// in order. InvalidArgument: no such tensor, or a box outside of it.
  [[nodiscard]] absl::Status Add(const TensorBox& box, const Box& part);
  /// Those of all boxes, in their order; as of DigestBoxes.
  std::vector<TensorDigest> Take();

 private:
  class Stream;
  void Finish();

  const SafetensorsView* const view_;
  std::optional<TensorBox> box_;  ///< Whose parts come now.
  std::unique_ptr<Stream> stream_;
  std::vector<TensorDigest> digests_;
};

/// The elements of a tensor of this shape that have no digest.
std::vector<Box> Undigested(absl::Span<const int64_t> shape,
                            absl::Span<const TensorDigest> digests);

/// Reads every byte. DataLoss names the first tensor whose bytes differ. FailedPrecondition names a
/// tensor whose elements the digests do not all cover, or a digest without a tensor.
[[nodiscard]] absl::Status VerifyTensors(const SafetensorsView& view,
                                         absl::Span<const TensorDigest> digests);

}  // namespace baton::relay

#endif  // BATON_RELAY_SEGMENT_CHECKSUM_H_
