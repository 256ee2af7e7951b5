// The header of a segment that does not exist yet.
#ifndef BATON_RELAY_SEGMENT_SEGMENT_HEADER_H_
#define BATON_RELAY_SEGMENT_SEGMENT_HEADER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton::relay {

/// Names of the tensors, sorted. InvalidArgument unless `header` is exactly the header of a
/// well-formed safetensors file of `size_bytes`. Uses no memory for the data.
absl::StatusOr<std::vector<std::string>> CheckSegmentHeader(absl::string_view header,
                                                            uint64_t size_bytes);

}  // namespace baton::relay

#endif  // BATON_RELAY_SEGMENT_SEGMENT_HEADER_H_
