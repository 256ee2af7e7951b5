// `~` in paths of specs and options. A shell expands it only at the beginning of a word, so not in
// YAML and not in --from=~/run; the controller may have another user on another machine.
#ifndef BATON_SDK_CLI_SHARED_HOME_PATHS_H_
#define BATON_SDK_CLI_SHARED_HOME_PATHS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "baton/v1/job_spec.pb.h"

namespace baton::cli {

/// `path` with a leading "~" or "~/" replaced by the user's home (HOME). Any other path, "~name"
/// among them, stays as it is, and so do all where HOME is not set.
std::string ExpandHome(absl::string_view path);

/// The same for the paths in a spec: models, data files, and the working directory of the reward's
/// command.
void ExpandHomes(v1::JobSpec* spec);

}  // namespace baton::cli

#endif  // BATON_SDK_CLI_SHARED_HOME_PATHS_H_
