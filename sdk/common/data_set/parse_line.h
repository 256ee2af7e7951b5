// One line of a data file as JSON. Internal to this folder.
#ifndef BATON_SDK_COMMON_DATA_SET_PARSE_LINE_H_
#define BATON_SDK_COMMON_DATA_SET_PARSE_LINE_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "sdk/common/data_set/line_fields.h"

namespace baton {

/// The object that `line` is. INVALID_ARGUMENT: it is none, is longer than 16 MiB, is nested more
/// than kMaxNesting deep, or has a key twice in one object: parsers differ in which value counts.
absl::StatusOr<DataJson> ParseLine(absl::string_view line);

}  // namespace baton

#endif  // BATON_SDK_COMMON_DATA_SET_PARSE_LINE_H_
