// Values out of the bytes of a message.
#ifndef BATON_SDK_COMMON_CONTRACTS_RAW_VALUES_H_
#define BATON_SDK_COMMON_CONTRACTS_RAW_VALUES_H_

#include <cstring>
#include <type_traits>
#include <vector>

#include "absl/strings/string_view.h"

namespace baton {

/// The values whose bytes `bytes` holds, in this machine's order: a copy, since the bytes of a
/// message need not be aligned. Bytes after the last whole value are ignored. Empty bytes, whose
/// address may be null, give no values.
template <typename T>
std::vector<T> RawValues(absl::string_view bytes) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> values(bytes.size() / sizeof(T));
  // memcpy from or to null is undefined even for a size of 0.
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

}  // namespace baton

#endif  // BATON_SDK_COMMON_CONTRACTS_RAW_VALUES_H_
