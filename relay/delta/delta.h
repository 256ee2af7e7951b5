// A version as what differs from an earlier one of the same tensors.
//
// The data of both files are cut into blocks of elements of one size. A block that has not changed
// costs four bytes. Of another one, the exclusive or with the base is shuffled (first the lowest
// byte of every element, then the next ones) and compressed by zstd: training changes low bits of
// few elements, so nearly all bytes are 0. Exact, whatever the bytes are.
//
//   delta = block*     in the order of the data
//   block = u32 size (little-endian), then so many bytes: a zstd frame; 0: as in the base
#ifndef BATON_RELAY_DELTA_DELTA_H_
#define BATON_RELAY_DELTA_DELTA_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace baton::relay {

/// `base` and `next`: whole safetensors files whose tensors have the same names, types, shapes and
/// places; metadata may differ. INVALID_ARGUMENT: they do not. RESOURCE_EXHAUSTED: the delta would
/// have more than `most_bytes`.
absl::StatusOr<std::vector<uint8_t>> EncodeDelta(absl::Span<const uint8_t> base,
                                                 absl::Span<const uint8_t> next,
                                                 uint64_t most_bytes);

/// Writes the data of `out`, a safetensors file whose header is in place. INVALID_ARGUMENT: the
/// tensors of `base` are others, or `delta` is not a delta of such files; then the data of `out`
/// are undefined. With a base of other values than EncodeDelta had, other data come out and no
/// error: checksums tell.
[[nodiscard]] absl::Status ApplyDelta(absl::Span<const uint8_t> base,
                                      absl::Span<const uint8_t> delta, absl::Span<uint8_t> out);

}  // namespace baton::relay

#endif  // BATON_RELAY_DELTA_DELTA_H_
