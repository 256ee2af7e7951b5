// The projects of a controller: their settings, shares and quotas.
#ifndef BATON_CONTROLLER_RUNTIME_SUBMIT_PROJECTS_H_
#define BATON_CONTROLLER_RUNTIME_SUBMIT_PROJECTS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "baton/v1/access_service.pb.h"
#include "baton/v1/job_service.pb.h"
#include "controller/runtime/calls/calls.h"
#include "controller/runtime/job_files/data_files.h"
#include "controller/runtime/submit/controller_scope.h"
#include "controller/spec/settings/step_size.h"

namespace baton::controller {

/// A limit is the project's own, or the controller's. Any thread, unless a method says otherwise.
class Projects {
 public:
  explicit Projects(ControllerScope* scope) : scope_(scope) {}

  /// Before the first call. DATA_LOSS: a row is damaged. Blocks on the store.
  absl::Status Read();
  /// INVALID_ARGUMENT (PROJECT_SPEC).
  void Set(v1::Project project, Callback<v1::Project> done);
  /// The project's settings; the defaults if they were never set.
  v1::Project Named(const std::string& project) const;
  /// Projects with settings, and those whose jobs take space.
  std::set<std::string> Names() const;

  StepLimits StepLimitsOf(const std::string& project) const;
  int64_t UploadLimitOf(const std::string& project) const;
  /// The limits of an admitted job. If the project's own limit was lowered since, the job may
  /// exceed it, but not the controller's limit.
  DataLimits DataLimitsOf(const std::string& job) const;
  std::vector<v1::FieldViolation> CheckPriority(const v1::JobSpec& effective,
                                                const std::string& project) const;
  /// Bytes of the project's job folders that are about to be written, held until the result is
  /// destroyed. RESOURCE_EXHAUSTED (QUOTA_JOB_BYTES).
  absl::StatusOr<std::shared_ptr<void>> HoldJobBytes(const std::string& project, uint64_t bytes);

  // On the admission strand: calls that meet there count at once.
  /// RESOURCE_EXHAUSTED (QUOTA_JOBS, QUOTA_JOB_BYTES, QUOTA_ENDED_JOBS): no further job.
  absl::Status CheckNewJob(const std::string& project) const;
  /// The gate of every call that makes a job: CheckNewJob, and a place. It counts as an unfinished
  /// job until its caller is gone or it is destroyed, which any thread may do at any time; destroy
  /// it once the job is in the table.
  absl::StatusOr<std::shared_ptr<void>> EnterNewJob(const std::string& project, CallerGone gone);
  /// The check is repeated when the job is made. `own`: the bytes that it holds itself
  /// (HoldJobBytes). RESOURCE_EXHAUSTED (QUOTA_JOB_BYTES, QUOTA_ENDED_JOBS).
  absl::Status CheckRoom(const std::string& project, int64_t own) const;
  /// A job is being resumed until EndResume: its state changes only when the turn is committed, but
  /// it counts from here on. RESOURCE_EXHAUSTED (QUOTA_JOBS).
  absl::Status BeginResume(const JobRuntime& job);
  void EndResume(const std::string& job);

  /// Now and then, has the folders of active jobs measured again. On the cluster's strand.
  void TouchActiveJobs();

 private:
  struct Entering {
    absl::Mutex mu;
    std::multimap<std::string, CallerGone> places ABSL_GUARDED_BY(mu);  // by project
  };

  absl::Status CheckUnfinished(const std::string& project) const;
  absl::Status CheckEnded(const std::string& project) const;
  absl::Status CheckJobBytes(const std::string& project, int64_t own) const;
  int64_t Unfinished(const std::string& project) const;
  /// Places whose callers are there.
  int64_t PlacesOf(const std::string& project) const;
  int64_t JobBytesLimitOf(const std::string& project) const;

  ControllerScope* const scope_;
  const std::shared_ptr<Entering> entering_ = std::make_shared<Entering>();
  std::multiset<std::string> resuming_;  // jobs, once for each call; on the admission strand
  absl::Time folders_looked_at_ = absl::InfinitePast();  // on the cluster's strand

  mutable absl::Mutex mu_;
  std::map<std::string, v1::Project> projects_ ABSL_GUARDED_BY(mu_);  // with settings
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_SUBMIT_PROJECTS_H_
