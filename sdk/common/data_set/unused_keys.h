// The keys of a line that its job does not use. Internal to this folder.
#ifndef BATON_SDK_COMMON_DATA_SET_UNUSED_KEYS_H_
#define BATON_SDK_COMMON_DATA_SET_UNUSED_KEYS_H_

#include <string>
#include <vector>

#include "sdk/common/data_set/data_set.h"
#include "sdk/common/data_set/line_fields.h"

namespace baton {

/// In the line's order. Of an object in which one key is used the others are named with it:
/// "reward_model.style". A key whose value is null is absent.
std::vector<std::string> UnusedKeys(const DataJson& line, const DataSetOptions& options);

/// The key of `line` that most likely holds the answer, by its name: "solution",
/// "reward_model.ground_truth". "": none does.
std::string LikelyAnswerKey(const DataJson& line);

}  // namespace baton

#endif  // BATON_SDK_COMMON_DATA_SET_UNUSED_KEYS_H_
