// Columns of trajectories and of tasks' results: found by name, made of values.
#ifndef BATON_SDK_COMMON_MESSAGES_COLUMNS_H_
#define BATON_SDK_COMMON_MESSAGES_COLUMNS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "baton/v1/experience.pb.h"

namespace baton {

/// The first column of that name; null: there is none. `Message` is a v1::Trajectory or a
/// v1::TaskResult, which owns the column.
template <typename Message>
const v1::Column* FindColumn(const Message& message, absl::string_view name) {
  for (const v1::Column& column : message.columns()) {
    if (absl::string_view(column.name()) == name) return &column;
  }
  return nullptr;
}

namespace internal {

template <typename T>
v1::Column PackColumn(absl::string_view name, v1::DataType dtype, bool per_token,
                      absl::Span<const T> values) {
  v1::Column column;
  column.set_name(std::string(name));
  column.set_dtype(dtype);
  column.set_per_token(per_token);
  column.set_data(values.data(), values.size() * sizeof(T));
  return column;
}

}  // namespace internal

/// A column of int32 or float32 that holds `values` in this machine's order of bytes.
inline v1::Column MakeColumn(absl::string_view name, bool per_token,
                             absl::Span<const int32_t> values) {
  return internal::PackColumn(name, v1::DATA_TYPE_INT32, per_token, values);
}
inline v1::Column MakeColumn(absl::string_view name, bool per_token,
                             absl::Span<const float> values) {
  return internal::PackColumn(name, v1::DATA_TYPE_FLOAT32, per_token, values);
}

}  // namespace baton

#endif  // BATON_SDK_COMMON_MESSAGES_COLUMNS_H_
