// Moving a tensor from one division into boxes to another.
//
// One planner serves publishing (trainer ranks -> segment), loading (segment -> tensor-parallel
// slice), the hybrid engine and checkpoints in another layout. Pure: the plan depends on the boxes
// alone, and can be made before any byte exists.
#ifndef BATON_RELAY_WEIGHTS_RESHARD_H_
#define BATON_RELAY_WEIGHTS_RESHARD_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "relay/weights/box.h"

namespace baton::relay {

/// A box of a tensor that lies row-major without gaps at `offset_bytes` of buffer `buffer`.
struct PlacedBox {
  Box box;
  int buffer = 0;
  int64_t offset_bytes = 0;
};

/// counts[0] x counts[1] x … runs of `run_bytes` each. Run (i0, i1, …) is read at
/// source_offset + sum(i_d * source_strides[d]) and written likewise. All in bytes.
struct StridedCopy {
  int source_buffer = 0;
  int destination_buffer = 0;
  int64_t source_offset = 0;
  int64_t destination_offset = 0;
  int64_t run_bytes = 0;
  std::vector<int64_t> counts;
  std::vector<int64_t> source_strides;
  std::vector<int64_t> destination_strides;

  int64_t total_bytes() const;
};

/// Copies that fill every destination box from the sources. Sources may overlap (replicas): each
/// element is copied once, from the first source that has it. Dimensions that are whole on both
/// sides are joined into longer runs. `element_bytes` >= 1.
/// InvalidArgument: ranks differ. FailedPrecondition: a destination element that no source has,
/// naming the missing box.
absl::StatusOr<std::vector<StridedCopy>> PlanReshard(int64_t element_bytes,
                                                     absl::Span<const PlacedBox> sources,
                                                     absl::Span<const PlacedBox> destinations);

/// Carries the plan out; buffers are numbered as in the plan and must not overlap. Everything is
/// checked against the buffers' sizes before the first byte is written: OutOfRange.
[[nodiscard]] absl::Status ExecuteReshard(
    absl::Span<const StridedCopy> plan, absl::Span<const absl::Span<const uint8_t>> source_buffers,
    absl::Span<const absl::Span<uint8_t>> destination_buffers);

}  // namespace baton::relay

#endif  // BATON_RELAY_WEIGHTS_RESHARD_H_
