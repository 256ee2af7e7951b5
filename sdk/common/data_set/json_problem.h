// The reason why a line or a file is not JSON, for the people who wrote it.
#ifndef BATON_SDK_COMMON_DATA_SET_JSON_PROBLEM_H_
#define BATON_SDK_COMMON_DATA_SET_JSON_PROBLEM_H_

#include <string>

#include "absl/strings/string_view.h"

namespace baton {

/// The problem of `line`, which is not valid JSON, and its column (in characters, from 1): "column
/// 9: not valid JSON: a comma before the closing bracket; remove it".
std::string JsonProblem(absl::string_view line);

/// A guess at what a file without JSON lines is, from its first bytes, and what to do about it: "it
/// is a JSON array; write one element a line (jq -c '.[]' FILE)". Empty: unknown.
std::string OtherFormat(absl::string_view beginning);

}  // namespace baton

#endif  // BATON_SDK_COMMON_DATA_SET_JSON_PROBLEM_H_
