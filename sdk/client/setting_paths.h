// Where a spec has a setting, for one that stands in the wrong section.
#ifndef BATON_SDK_CLIENT_SETTING_PATHS_H_
#define BATON_SDK_CLIENT_SETTING_PATHS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace baton {

/// The paths of the settings called `name`, in the order of the spec: "trainer.save_freq" for
/// save_freq. A section that stands in several places (actor, critic.train) counts in the first
/// one; elements of lists have no path. More than three say nothing: then there are none.
std::vector<std::string> PathsOfSetting(absl::string_view name);

/// The paths of the settings whose name is probably meant by `name`; empty: none is near.
std::vector<std::string> PathsOfNearSetting(absl::string_view name);

/// "; did you mean 'a' or 'b'?"; empty for no paths.
std::string SuggestionOf(const std::vector<std::string>& paths);

}  // namespace baton

#endif  // BATON_SDK_CLIENT_SETTING_PATHS_H_
