// Element types of stored tensors, as the safetensors format names them.
#ifndef BATON_RELAY_WEIGHTS_DTYPE_H_
#define BATON_RELAY_WEIGHTS_DTYPE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace baton::relay {

enum class DType {
  kBool,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kF64,
  kI64,
  kU64,
};

/// Bytes of one element: 1, 2, 4 or 8.
int64_t SizeBytes(DType dtype);

/// The safetensors spelling: "F32", "BF16", "F8_E4M3" …
absl::string_view DTypeName(DType dtype);

/// InvalidArgument for an unknown name (escaped in the message, it may be any bytes).
absl::StatusOr<DType> ParseDType(absl::string_view name);

/// Product of `shape` times the element size. InvalidArgument if a dimension is negative or the
/// product does not fit int64.
absl::StatusOr<int64_t> TensorSizeBytes(DType dtype, absl::Span<const int64_t> shape);

}  // namespace baton::relay

#endif  // BATON_RELAY_WEIGHTS_DTYPE_H_
