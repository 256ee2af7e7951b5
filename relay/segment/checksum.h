// Checksums of the tensors in a segment.
#ifndef BATON_RELAY_SEGMENT_CHECKSUM_H_
#define BATON_RELAY_SEGMENT_CHECKSUM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "relay/weights/safetensors_reader.h"

namespace baton::relay {

/// XXH3-64 (seed 0) of a tensor's bytes.
struct TensorDigest {
  std::string name;
  uint64_t xxh3 = 0;

  friend bool operator==(const TensorDigest& a, const TensorDigest& b) {
    return a.name == b.name && a.xxh3 == b.xxh3;
  }
};

uint64_t Xxh3(absl::Span<const uint8_t> bytes);

/// Of every tensor, sorted by name.
std::vector<TensorDigest> DigestTensors(const SafetensorsView& view);

/// Reads every byte. DataLoss naming the first tensor whose bytes differ; FailedPrecondition naming
/// a tensor without a digest, or a digest without a tensor.
[[nodiscard]] absl::Status VerifyTensors(const SafetensorsView& view,
                                         absl::Span<const TensorDigest> digests);

}  // namespace baton::relay

#endif  // BATON_RELAY_SEGMENT_CHECKSUM_H_
