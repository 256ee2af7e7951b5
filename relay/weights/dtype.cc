#include "relay/weights/dtype.h"

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace baton::relay {
namespace {

struct DTypeInfo {
  DType dtype;
  absl::string_view name;
  int64_t size_bytes;
};

constexpr DTypeInfo kInfos[] = {
    {DType::kBool, "BOOL", 1},      {DType::kU8, "U8", 1},          {DType::kI8, "I8", 1},
    {DType::kF8E5M2, "F8_E5M2", 1}, {DType::kF8E4M3, "F8_E4M3", 1}, {DType::kI16, "I16", 2},
    {DType::kU16, "U16", 2},        {DType::kF16, "F16", 2},        {DType::kBF16, "BF16", 2},
    {DType::kI32, "I32", 4},        {DType::kU32, "U32", 4},        {DType::kF32, "F32", 4},
    {DType::kF64, "F64", 8},        {DType::kI64, "I64", 8},        {DType::kU64, "U64", 8},
};

const DTypeInfo& Info(DType dtype) { return kInfos[static_cast<int>(dtype)]; }

}  // namespace

int64_t SizeBytes(DType dtype) { return Info(dtype).size_bytes; }

absl::string_view DTypeName(DType dtype) { return Info(dtype).name; }

absl::StatusOr<DType> ParseDType(absl::string_view name) {
  for (const DTypeInfo& info : kInfos) {
    if (info.name == name) return info.dtype;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown dtype \"", absl::CHexEscape(name.substr(0, 32)), "\""));
}

absl::StatusOr<int64_t> TensorSizeBytes(DType dtype, absl::Span<const int64_t> shape) {
  int64_t bytes = SizeBytes(dtype);
  bool overflow = false;
  bool empty = false;
  for (int64_t dim : shape) {
    if (dim < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("negative dimension in shape [", absl::StrJoin(shape, ", "), "]"));
    }
    empty = empty || dim == 0;
    overflow = overflow || __builtin_mul_overflow(bytes, dim, &bytes);
  }
  // An empty tensor has no bytes, however large its other dimensions are.
  if (empty) return 0;
  if (overflow) {
    return absl::InvalidArgumentError(absl::StrCat("shape [", absl::StrJoin(shape, ", "), "] of ",
                                                   DTypeName(dtype),
                                                   " has more bytes than 63 bits can count"));
  }
  return bytes;
}

}  // namespace baton::relay
