// What the workers of a job must promise beyond their roles.
#ifndef BATON_CONTROLLER_CORE_NEEDED_FEATURES_H_
#define BATON_CONTROLLER_CORE_NEEDED_FEATURES_H_

#include <map>
#include <string>

#include "absl/strings/string_view.h"
#include "baton/v1/job_spec.pb.h"
#include "sdk/base/worker_features.h"

namespace baton::controller {

/// Role -> feature (Hello.features). Pure.
inline std::map<std::string, std::string> NeededFeatures(const v1::JobSpec& effective) {
  if (effective.reward().command().empty()) return {};
  return {{"reward", kRewardCommandFeature}};
}

/// How a worker comes to offer it, for people: " (…)"; empty: unknown.
inline std::string FeatureRemedy(absl::string_view feature) {
  return feature == kRewardCommandFeature
             ? " (they run no reward.command; start them with --allow-commands, and see their logs)"
             : "";
}

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_NEEDED_FEATURES_H_
