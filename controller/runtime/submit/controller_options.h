// The options of a controller.
#ifndef BATON_CONTROLLER_RUNTIME_SUBMIT_CONTROLLER_OPTIONS_H_
#define BATON_CONTROLLER_RUNTIME_SUBMIT_CONTROLLER_OPTIONS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "controller/cluster/cluster_core.h"
#include "controller/core/loop/job_core.h"
#include "controller/runtime/payloads/payload_cache.h"
#include "controller/spec/settings/step_size.h"
#include "controller/store/store.h"

namespace baton::controller {

struct ControllerOptions {
  std::string data_root;                ///< Created when absent.
  std::unique_ptr<store::Store> store;  ///< Required.
  bool survive_power_cut = false;       ///< Also syncs payloads, before the rows that name them.
  int64_t kept_events = 100'000;        ///< The newest of each job.
  int64_t kept_logs = 100'000;
  int64_t kept_metrics = 10'000;  ///< Steps; older ones are thinned out (retention.h).
  /// Callers may be on other machines: then specs may name only uploads, the project's own jobs and
  /// files below `allowed_paths`.
  bool confine_paths = false;
  std::vector<std::string> allowed_paths;
  /// A key shared with the relays, which then require a capability from publishers. Empty: they do
  /// not.
  std::string relay_key;
  StepLimits step_limits;                       ///< For projects without limits of their own.
  uint64_t max_data_bytes = uint64_t{8} << 30;  ///< Limit for one list of files of a spec.
  /// Limit for the data of all jobs in memory; also for one job, which otherwise could never begin.
  uint64_t max_data_memory_bytes = uint64_t{16} << 30;
  /// Payloads in memory, of all jobs and of one job; the others are in the experience log alone
  /// (payload_cache.h).
  uint64_t payload_bytes = kPayloadBytes;
  uint64_t job_payload_bytes = kJobPayloadBytes;
  /// Limit of uploads for a project without its own limit; 0: no limit.
  int64_t max_upload_bytes = int64_t{64} << 30;
  /// Limit of jobs that have ended, for a project without its own limit; 0: no limit.
  int64_t max_ended_jobs = 10'000;
  /// Limit for the folders of a project's jobs, checked when a job is made from a checkpoint; 0: no
  /// limit.
  int64_t max_job_bytes = 0;
  /// Uploads that no job names are removed at this age, and searched for at this interval.
  absl::Duration unnamed_uploads_kept = absl::Hours(24);
  absl::Duration look_for_unnamed_uploads = absl::Hours(1);
  /// After a deletion they are searched for sooner. A search reads all jobs and checkpoints, so one
  /// search serves many deletions.
  absl::Duration look_after_deletion = absl::Minutes(1);
  /// Jobs to quarantine (STATE_FAILED, QUARANTINED), and jobs to restore again. Names are full, or
  /// of project `default`. Create answers NOT_FOUND for an unknown job.
  std::vector<std::string> quarantine, unquarantine;
  /// The program that finds problems of models and data (checker_process.h); empty: no such check.
  /// The time limit of one check, without the time in the queue. The largest number of its
  /// processes at once (checker_pool.h).
  std::string checker;
  absl::Duration check_limit = absl::Minutes(6);
  int check_processes = 5;
  ClusterOptions cluster;
  JobCoreOptions core;
  absl::Duration tick = absl::Milliseconds(250);
  int strand_threads = 2;
  int disk_threads = 2;
  int reader_threads = 2;
  /// Threads that read data files, in addition to one thread for lists of
  /// large_data_bytes or more.
  int data_threads = 3;
  /// Submissions have separate threads, as many of both kinds as jobs have.
  uint64_t large_data_bytes = uint64_t{64} << 20;
  /// Bytes of a project's specs, and of those of all projects, that may wait until their files are
  /// read; more are refused for the moment.
  uint64_t max_waiting_spec_bytes = uint64_t{64} << 20;
  uint64_t max_waiting_bytes_of_all = uint64_t{256} << 20;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_SUBMIT_CONTROLLER_OPTIONS_H_
