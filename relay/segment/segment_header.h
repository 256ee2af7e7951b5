// The check of a segment's header before the segment exists.
#ifndef BATON_RELAY_SEGMENT_SEGMENT_HEADER_H_
#define BATON_RELAY_SEGMENT_SEGMENT_HEADER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton::relay {

using TensorShapes = std::map<std::string, std::vector<int64_t>>;  ///< By name.

/// The tensors' shapes. InvalidArgument unless `header` is exactly the header of a
/// well-formed safetensors file of `size_bytes`. Uses no memory for the data.
absl::StatusOr<TensorShapes> CheckSegmentHeader(absl::string_view header, uint64_t size_bytes);

}  // namespace baton::relay

#endif  // BATON_RELAY_SEGMENT_SEGMENT_HEADER_H_
