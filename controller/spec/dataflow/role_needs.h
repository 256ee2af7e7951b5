// Requirements on a worker for a role of a job: methods and features of its Hello.
#ifndef BATON_CONTROLLER_SPEC_DATAFLOW_ROLE_NEEDS_H_
#define BATON_CONTROLLER_SPEC_DATAFLOW_ROLE_NEEDS_H_

#include <map>
#include <set>
#include <string>
#include <tuple>

#include "absl/strings/string_view.h"
#include "baton/v1/job_spec.pb.h"
#include "baton/v1/worker_service.pb.h"
#include "google/protobuf/repeated_ptr_field.h"

namespace baton::controller {

/// The requirements of a job on a worker in one role.
struct RoleNeed {
  std::set<std::string> methods;   ///< Methods of this role that the job calls (Hello.methods).
  std::set<std::string> scores;    ///< The `methods` that score nodes call.
  std::set<std::string> features;  ///< Hello.features.

  bool operator<(const RoleNeed& other) const {
    return std::tie(methods, scores, features) <
           std::tie(other.methods, other.scores, other.features);
  }
};
using RoleNeeds = std::map<std::string, RoleNeed>;  ///< By role.

/// The needs of every role that the job has workers for. Role reward with the method compute_reward
/// needs a worker that computes the spec's rules, or runs its command, or both.
/// `model_features`: Job.model_features. Pure.
RoleNeeds RoleNeedsOf(const v1::JobSpec& effective, const v1::Dataflow& dataflow,
                      const google::protobuf::RepeatedPtrField<std::string>& model_features);

/// The first thing that a worker does not offer, methods first; both empty: it offers everything.
struct MissingSupport {
  std::string method;
  std::string feature;

  bool none() const { return method.empty() && feature.empty(); }
  bool operator<(const MissingSupport& other) const {
    return std::tie(method, feature) < std::tie(other.method, other.feature);
  }
};
MissingSupport MissingFrom(const v1::Hello& hello, const std::string& role, const RoleNeed& need);

/// True if the worker registered some method of the role.
bool PlaysRole(const v1::Hello& hello, absl::string_view role);

/// "offers method compute_brevity"; for a number of workers: "does not offer method …", "do not …".
std::string SupportText(const MissingSupport& missing);
std::string MissingSupportText(const MissingSupport& missing, int workers);

/// Advice for when no worker offers it: an imperative sentence without a full stop.
std::string MissingSupportRemedy(absl::string_view role, const MissingSupport& missing);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_SPEC_DATAFLOW_ROLE_NEEDS_H_
