// Names of models on the Hugging Face hub where a folder is wanted.
#ifndef BATON_SDK_COMMON_SCHEMA_HUB_NAME_H_
#define BATON_SDK_COMMON_SCHEMA_HUB_NAME_H_

#include <string>

#include "absl/strings/string_view.h"

namespace baton {

/// Instructions to get a folder, if `path` looks like the name of a model on the hub
/// ("Qwen/Qwen2.5-0.5B"); else empty.
std::string HubNameHint(absl::string_view path);

}  // namespace baton

#endif  // BATON_SDK_COMMON_SCHEMA_HUB_NAME_H_
