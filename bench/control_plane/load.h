// The parts of load_bench. One program, three kinds of process beside the server: the parent calls
// (jobs, uploads), one child is all workers, one is all watchers; so that no client's queue is
// measured as the server's.
#ifndef BATON_BENCH_CONTROL_PLANE_LOAD_H_
#define BATON_BENCH_CONTROL_PLANE_LOAD_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "baton/v1/job_service.grpc.pb.h"
#include "grpcpp/channel.h"
#include "nlohmann/json.hpp"

namespace baton::bench {

struct LoadSize {
  int workers = 256;  ///< Bare streams with heartbeats, beside those that play a job.
  int watchers = 1000;
  int slow_watchers = 50;  ///< Watchers that do not read until the load is over.
  int creates = 512;       ///< CreateJob, all at once.
  int spec_bytes = 500'000;
  int uploads = 200;  ///< All at once.
  int upload_bytes = 3'000'000;
  double seconds = 40;     ///< The load lasts at least so long.
  int capped_jobs = 1000;  ///< Queued in a project that may hold one worker.
  double capped_seconds = 15;
};

/// The time of a measurement, and the milliseconds that were measured.
struct Sample {
  double unix_s = 0;
  double ms = 0;
};
double UnixSeconds(absl::Time time);
bool WriteSamples(const std::string& path, const std::vector<Sample>& samples);
/// The samples of [begin, end), in milliseconds.
std::vector<double> ReadSamples(const std::string& path, absl::Time begin, absl::Time end);

/// A connection of its own.
std::shared_ptr<grpc::Channel> NewChannel(const std::string& controller, bool small_window = false);

/// A child's report at its end: {"errors": {what: count}, …}.
inline constexpr char kWorkersReport[] = "workers.json", kWorkersSamples[] = "workers.samples";
inline constexpr char kWatchersReport[] = "watchers.json", kWatchersSamples[] = "watchers.samples";

/// load_workers.cc: attaches `count` bare workers and those that play a job: an actor, a reward and
/// `rollouts` rollouts; prints "ready=1" when all are welcome. Until SIGTERM; then writes its
/// report and samples into `folder`.
int RunLoadWorkers(const std::string& controller, const std::string& folder, int count,
                   int rollouts);

/// load_watchers.cc: watches `job`; prints "ready=1" when each has its first event. SIGUSR1 wakes
/// the slow ones, and "resumed=N" is printed when they have caught up, N of them after a cut-off.
/// Ends with the job; then writes its report and samples into `folder`.
int RunLoadWatchers(const std::string& controller, const std::string& folder,
                    const std::string& job, int count, int slow);

/// Calls that are under way together.
struct CallsResult {
  std::vector<double> ms;           ///< Of the calls that succeeded.
  std::vector<std::string> errors;  ///< One line for each failed call.
  absl::Duration wall;
  int retries = 0;  ///< Calls that were made again, as the busy server asked.
};

/// One stub per connection; stubs outlive the calls.
using Stubs = std::vector<std::unique_ptr<v1::JobService::Stub>>;

/// load_calls.cc. Blocks until all are answered. Jobs are called "load-0", …; another `round` makes
/// them again after they were deleted.
CallsResult CreateJobs(const Stubs& stubs, const std::string& data, int count, int spec_bytes,
                       int round, const std::string& project = "default");
CallsResult UploadFiles(const Stubs& stubs, int count, int bytes);
CallsResult CancelJobs(const Stubs& stubs, int count, const std::string& project = "default");
CallsResult DeleteJobs(const Stubs& stubs, int count, const std::string& project = "default");

}  // namespace baton::bench

#endif  // BATON_BENCH_CONTROL_PLANE_LOAD_H_
