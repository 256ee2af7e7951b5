// Resolution of paths in a spec, which are relative to the spec's folder.
#ifndef BATON_SDK_CLI_SPEC_SPEC_PATHS_H_
#define BATON_SDK_CLI_SPEC_SPEC_PATHS_H_

#include <filesystem>
#include <vector>

#include "baton/v1/job_spec.pb.h"
#include "sdk/client/spec_yaml.h"

namespace baton::cli {

/// Makes absolute what the spec says relative to its `folder`: folders of models, there or not.
/// Fills in the working directory of the reward's command. Data files stay as they are, and so does
/// a model's path that is no folder there and reads as a name on the Hugging Face hub.
void MakePathsAbsolute(const std::filesystem::path& folder, v1::JobSpec* spec);

/// A problem for each model that the spec names relative to its own folder, for a controller that
/// is on another machine and does not see that folder.
std::vector<SpecProblem> RelativeModels(const v1::JobSpec& spec);

}  // namespace baton::cli

#endif  // BATON_SDK_CLI_SPEC_SPEC_PATHS_H_
