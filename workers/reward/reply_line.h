// A line that a command writes to stdout.
#ifndef BATON_WORKERS_REWARD_REPLY_LINE_H_
#define BATON_WORKERS_REWARD_REPLY_LINE_H_

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/string_view.h"

namespace baton::reward {

/// The JSON of `line`, with what Python's json writes for numbers that are not finite (NaN,
/// Infinity) and numbers too large for a double as values that IsNotFinite knows. Discarded: it is
/// no JSON even so.
nlohmann::json ParseReplyLine(absl::string_view line);

bool IsNotFinite(const nlohmann::json& value);

/// What is wrong with a line that is no JSON object, and what to do about it: "wrote a line to
/// stdout that is no JSON object (…)".
std::string NoObject(absl::string_view line);

}  // namespace baton::reward

#endif  // BATON_WORKERS_REWARD_REPLY_LINE_H_
