// A typed client of the service, over the stubs of the API.
//
//   auto client = baton::Client::Connect("127.0.0.1:7077");
//   auto job = (*client)->CreateJob(spec, "my-job", /*request_id=*/"");
//   auto end = (*client)->WatchJob(job->name(), 0, [](const v1::JobEvent& e) { …; return true; });
//
// Thread-safe. Every call has a deadline (ClientOptions::timeout), except watches, which last until
// their job ends. A call that the controller refuses for the moment because it is busy (an error
// with RetryInfo) is tried again, after the time that the controller asks for, until that deadline.
// Errors carry the server's reason (sdk/common/rpc/error.h).
#ifndef BATON_SDK_CLIENT_CLIENT_H_
#define BATON_SDK_CLIENT_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "baton/v1/access_service.pb.h"
#include "baton/v1/cluster_service.pb.h"
#include "baton/v1/job_service.pb.h"
#include "baton/v1/replay_service.pb.h"
#include "sdk/common/rpc/tls_files.h"

namespace baton {

struct ClientOptions {
  std::string token;      ///< Bearer token; empty: none.
  TlsFiles tls;           ///< No files: the connection is not encrypted.
  bool insecure = false;  ///< Allows the token to leave this machine in clear text.
  /// The project of short job names, and of created and listed things. Empty: the token's project.
  std::string project;
  absl::Duration timeout = absl::Seconds(60);  ///< Deadline of one unary call.
  /// Called before a call is tried again that a busy controller refused for the moment (RetryInfo);
  /// the call goes on trying until its deadline. On the thread of the call. Null: nobody is told.
  std::function<void(const absl::Status& error)> on_busy;
  /// The time for which a watch tries to resume from the last revision that it got, after its
  /// connection broke.
  absl::Duration resume = absl::Minutes(5);
};

/// A stream that broke and is resumed.
struct Outage {
  absl::Status error;     ///< Why the stream broke, or its last resumption failed.
  absl::Duration lasted;  ///< Since it broke.
  bool over = false;      ///< The stream goes on: nothing of it was lost.
};
/// Called on the thread of the call when a stream breaks, after every attempt to resume it that
/// failed, and when it goes on.
using OnOutage = std::function<void(const Outage&)>;

class Client {
 public:
  /// Does not connect yet: the first call does, and returns UNAVAILABLE if no controller answers.
  /// NotFound, InvalidArgument: the TLS files cannot be used.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(const std::string& address,
                                                         ClientOptions options = {});
  virtual ~Client() = default;

  virtual const std::string& address() const = 0;

  /// `request_id`: a repeated call with the same id answers the first call's job; empty: none.
  virtual absl::StatusOr<v1::Job> CreateJob(const v1::JobSpec& spec, const std::string& job_id,
                                            const std::string& request_id) = 0;
  /// Creates a job from a checkpoint: from its folder, which the controller must see, or from
  /// "job:NAME" (CreateJobRequest.checkpoint). `changes`: settings that differ; null: no changes.
  virtual absl::StatusOr<v1::Job> CreateJobFrom(const std::string& checkpoint,
                                                const v1::JobSpec* changes,
                                                const std::string& job_id,
                                                const std::string& request_id) = 0;
  virtual absl::StatusOr<v1::ValidateJobResponse> ValidateJob(const v1::JobSpec& spec) = 0;
  virtual absl::StatusOr<v1::Job> GetJob(const std::string& name) = 0;
  // Lists fetch all pages: their answers have all items, and no page token.
  virtual absl::StatusOr<std::vector<v1::Job>> ListJobs(
      const std::vector<v1::Job::State>& states) = 0;
  virtual absl::StatusOr<v1::Job> CancelJob(const std::string& name) = 0;
  virtual absl::StatusOr<v1::Job> PauseJob(const std::string& name) = 0;
  virtual absl::StatusOr<v1::Job> ResumeJob(const std::string& name) = 0;
  virtual absl::Status DeleteJob(const std::string& name) = 0;
  /// `page_size`: at most so many steps; 0: all.
  virtual absl::StatusOr<v1::ListMetricsResponse> ListMetrics(
      const v1::ListMetricsRequest& request) = 0;
  /// `page_size`: the newest, at most so many; 0: 20.
  virtual absl::StatusOr<v1::ListTrajectoriesResponse> ListTrajectories(
      const v1::ListTrajectoriesRequest& request) = 0;
  virtual absl::StatusOr<v1::ListCheckpointsResponse> ListCheckpoints(const std::string& name) = 0;
  /// Unset fields of the request have their defaults; `name` may be short. May take minutes.
  virtual absl::StatusOr<v1::ExportCheckpointResponse> ExportCheckpoint(
      v1::ExportCheckpointRequest request) = 0;
  virtual absl::StatusOr<v1::ExplainJobResponse> ExplainJob(const std::string& name) = 0;
  virtual absl::StatusOr<v1::ListPresetsResponse> ListPresets() = 0;
  /// Unset fields of the request have their defaults; `name` may be short. May take minutes.
  virtual absl::StatusOr<v1::Replay> CreateReplay(v1::CreateReplayRequest request) = 0;
  virtual absl::StatusOr<v1::Replay> GetReplay(const std::string& name) = 0;
  virtual absl::StatusOr<v1::ListWorkersResponse> ListWorkers() = 0;
  virtual absl::StatusOr<v1::Worker> DrainWorker(const std::string& worker_id) = 0;
  virtual absl::StatusOr<v1::Worker> UndrainWorker(const std::string& worker_id) = 0;
  /// Calls `on_piece` for every message of a backup, in order. If it returns an error, the call
  /// ends and returns that error. Blocks until the end.
  virtual absl::Status Backup(
      const std::function<absl::Status(const v1::BackupResponse&)>& on_piece) = 0;

  virtual absl::StatusOr<v1::CreateTokenResponse> CreateToken(
      const v1::CreateTokenRequest& request) = 0;
  virtual absl::StatusOr<v1::ListTokensResponse> ListTokens() = 0;
  virtual absl::Status RevokeToken(const std::string& token_id) = 0;
  virtual absl::StatusOr<v1::Project> SetProject(const v1::Project& project) = 0;
  virtual absl::StatusOr<v1::ListProjectsResponse> ListProjects() = 0;

  /// Calls `on_event` for every event after `after_revision`, for each stored event exactly once,
  /// until the job has ended (OK) or `on_event` returns false (CANCELLED). Blocks. A controller
  /// that is away is noticed within 20 seconds, whether events are due or not (`on_outage`; null:
  /// nobody is told), and the watch is resumed for as long as ClientOptions::resume says.
  /// UNAVAILABLE at once where the controller has answered no call of this client yet.
  virtual absl::Status WatchJob(const std::string& name, int64_t after_revision,
                                const std::function<bool(const v1::JobEvent&)>& on_event,
                                const OnOutage& on_outage = nullptr) = 0;
  /// As above, for log lines. `follow` false: only the existing lines.
  virtual absl::Status ReadLogs(const std::string& name, int64_t after_sequence, bool follow,
                                const std::function<bool(const v1::LogEntry&)>& on_entry,
                                const OnOutage& on_outage = nullptr) = 0;

  /// Uploads a local file to the chosen project (without one: the token's project), where it counts
  /// towards the quota. Returns the path for a spec of that project.
  virtual absl::StatusOr<std::string> UploadFile(const std::string& path) = 0;
};

}  // namespace baton

#endif  // BATON_SDK_CLIENT_CLIENT_H_
