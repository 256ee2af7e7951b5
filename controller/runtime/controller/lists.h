// The lists of the controller, page by page.
#ifndef BATON_CONTROLLER_RUNTIME_CONTROLLER_LISTS_H_
#define BATON_CONTROLLER_RUNTIME_CONTROLLER_LISTS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "baton/v1/access_service.pb.h"
#include "baton/v1/cluster_service.pb.h"
#include "baton/v1/job_service.pb.h"
#include "controller/runtime/calls/calls.h"
#include "controller/runtime/files/uploads.h"
#include "controller/runtime/submit/controller_scope.h"
#include "controller/runtime/submit/projects.h"
#include "sdk/common/rpc/page.h"

namespace baton::controller {

/// Any thread. The threads of readers read the rows in pieces, so no write of a job waits for a
/// list. INVALID_ARGUMENT (PAGE_SIZE, PAGE_TOKEN).
class Lists {
 public:
  Lists(ControllerScope* scope, const Projects* projects, const Uploads* uploads)
      : scope_(scope), projects_(projects), uploads_(uploads) {}

  void ListJobs(const v1::ListJobsRequest& request, Callback<v1::ListJobsResponse> done) const;
  void ListMetrics(const v1::ListMetricsRequest& request,
                   Callback<v1::ListMetricsResponse> done) const;
  void ListTrajectories(const v1::ListTrajectoriesRequest& request,
                        Callback<v1::ListTrajectoriesResponse> done) const;
  void ListCheckpoints(const v1::ListCheckpointsRequest& request,
                       Callback<v1::ListCheckpointsResponse> done) const;
  void ListWorkers(const v1::ListWorkersRequest& request,
                   Callback<v1::ListWorkersResponse> done) const;
  absl::StatusOr<v1::ListProjectsResponse> ListProjects(
      const v1::ListProjectsRequest& request) const;

 private:
  absl::StatusOr<v1::ListJobsResponse> ReadJobs(const v1::ListJobsRequest& request,
                                                const Page& page, int64_t before) const;
  bool Shows(const std::string& job) const;  // blocks

  ControllerScope* const scope_;
  const Projects* const projects_;
  const Uploads* const uploads_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_CONTROLLER_LISTS_H_
