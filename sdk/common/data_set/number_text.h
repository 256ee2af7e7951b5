// JSON whose numbers stay the text of the file: 1.10, 1e3, and all digits of 2^64 and above.
// Internal to this folder and to what writes a data set's lines again.
#ifndef BATON_SDK_COMMON_DATA_SET_NUMBER_TEXT_H_
#define BATON_SDK_COMMON_DATA_SET_NUMBER_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace baton {

/// Whether a number in `value` may have been written in another way than Json::dump writes it.
bool HasNumberText(const nlohmann::ordered_json& value);

/// The value of `json`, with its keys in order. A number that HasNumberText speaks of is a binary
/// value, which no JSON has otherwise: the bytes are its text. Discarded: `json` is not JSON.
nlohmann::ordered_json ParseKeepingNumbers(absl::string_view json);

/// `value` of ParseKeepingNumbers, or any other, on one line without white space between values.
/// Texts are well-formed UTF-8. Recursive.
enum class KeyOrder { kAsGiven, kSorted };
std::string JsonText(const nlohmann::ordered_json& value, KeyOrder order);

}  // namespace baton

#endif  // BATON_SDK_COMMON_DATA_SET_NUMBER_TEXT_H_
