// Projects' weights and limits of workers.
//
// Pure. Owns what was set of each project. A project that was not set has weight 1 and no limit.
#ifndef BATON_CONTROLLER_CLUSTER_PROJECT_QUOTAS_H_
#define BATON_CONTROLLER_CLUSTER_PROJECT_QUOTAS_H_

#include <map>
#include <string>

#include "baton/v1/access_service.pb.h"

namespace baton::controller {

/// Not thread-safe.
class ProjectQuotas {
 public:
  void Set(const v1::Project& project) { projects_[project.project()] = project; }
  /// Workers that a project may hold; 0: any number.
  int LimitOf(const std::string& project) const;
  /// The number of further workers that a project with `held` workers may hold; INT_MAX: any
  /// number.
  int RoomOf(const std::string& project, int held) const;
  /// `held` divided by the project's weight.
  double ShareOf(const std::string& project, int held) const;

 private:
  std::map<std::string, v1::Project> projects_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CLUSTER_PROJECT_QUOTAS_H_
