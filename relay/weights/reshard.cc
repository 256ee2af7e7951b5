#include "relay/weights/reshard.h"

#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sdk/base/status_macros.h"

namespace baton::relay {
namespace {

/// Byte strides of a box that is stored row-major on its own.
std::vector<int64_t> RowMajorStrides(const Box& box, int64_t element_bytes) {
  std::vector<int64_t> strides(box.rank());
  int64_t stride = element_bytes;
  for (size_t d = box.rank(); d-- > 0;) {
    strides[d] = stride;
    stride *= box.end[d] - box.begin[d];
  }
  return strides;
}

int64_t OffsetOf(const Box& part, const PlacedBox& whole, const std::vector<int64_t>& strides) {
  int64_t offset = whole.offset_bytes;
  for (size_t d = 0; d < part.rank(); ++d) {
    offset += (part.begin[d] - whole.box.begin[d]) * strides[d];
  }
  return offset;
}

StridedCopy CopyOf(const Box& part, const PlacedBox& source, const PlacedBox& destination,
                   int64_t element_bytes) {
  const std::vector<int64_t> from = RowMajorStrides(source.box, element_bytes);
  const std::vector<int64_t> to = RowMajorStrides(destination.box, element_bytes);
  StridedCopy copy;
  copy.source_buffer = source.buffer;
  copy.destination_buffer = destination.buffer;
  copy.source_offset = OffsetOf(part, source, from);
  copy.destination_offset = OffsetOf(part, destination, to);
  copy.run_bytes = element_bytes;
  // Inner dimensions join the run for as long as both sides go on without a gap.
  size_t d = part.rank();
  while (d > 0 && from[d - 1] == copy.run_bytes && to[d - 1] == copy.run_bytes) {
    --d;
    copy.run_bytes *= part.end[d] - part.begin[d];
  }
  for (size_t outer = 0; outer < d; ++outer) {
    const int64_t count = part.end[outer] - part.begin[outer];
    if (count == 1) continue;
    copy.counts.push_back(count);
    copy.source_strides.push_back(from[outer]);
    copy.destination_strides.push_back(to[outer]);
  }
  return copy;
}

/// One past the last byte that the copy touches on a side with these strides.
int64_t EndOffset(int64_t offset, const StridedCopy& copy, const std::vector<int64_t>& strides) {
  for (size_t d = 0; d < copy.counts.size(); ++d) offset += (copy.counts[d] - 1) * strides[d];
  return offset + copy.run_bytes;
}

template <typename Buffers>
absl::Status CheckSide(const char* side, int buffer, int64_t begin, int64_t end,
                       const Buffers& buffers) {
  if (buffer < 0 || static_cast<size_t>(buffer) >= buffers.size()) {
    return absl::OutOfRangeError(
        absl::StrCat("the plan names ", side, " buffer ", buffer, " of ", buffers.size()));
  }
  const int64_t size = static_cast<int64_t>(buffers[buffer].size());
  if (begin < 0 || end > size) {
    return absl::OutOfRangeError(absl::StrCat("the plan touches bytes ", begin, " to ", end, " of ",
                                              side, " buffer ", buffer, ", which has ", size));
  }
  return absl::OkStatus();
}

void CopyRuns(const StridedCopy& copy, const uint8_t* source, uint8_t* destination, size_t dim) {
  if (dim == copy.counts.size()) {
    std::memcpy(destination, source, static_cast<size_t>(copy.run_bytes));
    return;
  }
  for (int64_t i = 0; i < copy.counts[dim]; ++i) {
    CopyRuns(copy, source + i * copy.source_strides[dim],
             destination + i * copy.destination_strides[dim], dim + 1);
  }
}

absl::Status CheckRanks(size_t rank, absl::Span<const PlacedBox> boxes) {
  for (const PlacedBox& placed : boxes) {
    if (placed.box.rank() != rank || placed.box.end.size() != rank) {
      return absl::InvalidArgumentError(
          absl::StrCat("box ", placed.box.ToString(), " has not rank ", rank, " as the others"));
    }
  }
  return absl::OkStatus();
}

/// Appends the copies that fill `destination`.
absl::Status PlanOne(int64_t element_bytes, absl::Span<const PlacedBox> sources,
                     const PlacedBox& destination, std::vector<StridedCopy>& plan) {
  std::vector<Box> missing;
  if (destination.box.volume() > 0) missing.push_back(destination.box);
  for (const PlacedBox& source : sources) {
    std::vector<Box> still_missing;
    for (const Box& box : missing) {
      const std::optional<Box> common = Intersect(box, source.box);
      if (!common) {
        still_missing.push_back(box);
        continue;
      }
      plan.push_back(CopyOf(*common, source, destination, element_bytes));
      for (Box& rest : Subtract(box, *common)) still_missing.push_back(std::move(rest));
    }
    missing = std::move(still_missing);
    if (missing.empty()) break;
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "no source has ", missing[0].ToString(), " of destination ", destination.box.ToString()));
}

}  // namespace

int64_t StridedCopy::total_bytes() const {
  int64_t bytes = run_bytes;
  for (int64_t count : counts) bytes *= count;
  return bytes;
}

absl::StatusOr<std::vector<StridedCopy>> PlanReshard(int64_t element_bytes,
                                                     absl::Span<const PlacedBox> sources,
                                                     absl::Span<const PlacedBox> destinations) {
  if (element_bytes < 1) {
    return absl::InvalidArgumentError(absl::StrCat("an element of ", element_bytes, " bytes"));
  }
  std::vector<StridedCopy> plan;
  if (destinations.empty()) return plan;
  const size_t rank = destinations[0].box.rank();
  BATON_RETURN_IF_ERROR(CheckRanks(rank, sources));
  BATON_RETURN_IF_ERROR(CheckRanks(rank, destinations));
  for (const PlacedBox& destination : destinations) {
    BATON_RETURN_IF_ERROR(PlanOne(element_bytes, sources, destination, plan));
  }
  return plan;
}

absl::Status ExecuteReshard(absl::Span<const StridedCopy> plan,
                            absl::Span<const absl::Span<const uint8_t>> source_buffers,
                            absl::Span<const absl::Span<uint8_t>> destination_buffers) {
  for (const StridedCopy& copy : plan) {
    BATON_RETURN_IF_ERROR(CheckSide("source", copy.source_buffer, copy.source_offset,
                                    EndOffset(copy.source_offset, copy, copy.source_strides),
                                    source_buffers));
    BATON_RETURN_IF_ERROR(CheckSide(
        "destination", copy.destination_buffer, copy.destination_offset,
        EndOffset(copy.destination_offset, copy, copy.destination_strides), destination_buffers));
  }
  for (const StridedCopy& copy : plan) {
    CopyRuns(copy, source_buffers[copy.source_buffer].data() + copy.source_offset,
             destination_buffers[copy.destination_buffer].data() + copy.destination_offset, 0);
  }
  return absl::OkStatus();
}

}  // namespace baton::relay
