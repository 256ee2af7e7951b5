// Resolution of paths in a spec, which are relative to the spec's folder.
#ifndef BATON_SDK_CLI_SPEC_SPEC_PATHS_H_
#define BATON_SDK_CLI_SPEC_SPEC_PATHS_H_

#include <filesystem>

#include "baton/v1/job_spec.pb.h"

namespace baton::cli {

/// Makes absolute what the spec says relative to its `folder`: models that are folders there. Fills
/// in the working directory of the reward's command. Data files stay as they are.
void MakePathsAbsolute(const std::filesystem::path& folder, v1::JobSpec* spec);

}  // namespace baton::cli

#endif  // BATON_SDK_CLI_SPEC_SPEC_PATHS_H_
