// Earlier responses to the prompts of a job, for rollouts that lack them (FetchHistory).
//
// The core knows the rows that it put, and after a restart those of the step in progress. Older
// ones are looked up in the store once, when they are first needed, and so are those of the seed
// job (spec.rollout.speculation.seed_from). Nothing of an ended job stays in memory.
#ifndef BATON_CONTROLLER_RUNTIME_JOB_JOB_HISTORY_H_
#define BATON_CONTROLLER_RUNTIME_JOB_JOB_HISTORY_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "baton/v1/experience_service.pb.h"
#include "baton/v1/job_service.pb.h"
#include "controller/core/prompts/prompt_history.h"
#include "controller/runtime/job/runtime_context.h"
#include "controller/runtime/payloads/batch_part.h"
#include "controller/runtime/payloads/history_part.h"
#include "controller/runtime/rows/stored_history.h"

namespace baton::controller {

/// On the job's strand. Does little there: the store is read on the threads of readers, and logs on
/// the disk threads.
class JobHistory {
 public:
  /// Calls of one job that are served at once.
  static constexpr int kMostCalls = 8;
  using Done = std::function<void(absl::StatusOr<std::shared_ptr<HistoryPart>>)>;
  /// Access of a call to its job. Each member holds the job.
  struct Job {
    std::function<void(std::function<void()> work)> on_strand;
    BatchSource log;
  };

  /// `submitted`: the job's specs.
  JobHistory(const RuntimeContext* context, std::string name, std::string uid,
             std::shared_ptr<const v1::Job> submitted);

  /// Opens this job's history, as long as the store keeps its secret.
  std::string Capability() const;
  /// `ended`: the job has ended. `known`: the rows that the core knows. Errors: as
  /// ControllerInterface::FetchHistory.
  void Fetch(const v1::FetchHistoryRequest& request, bool ended, const PromptHistory& known,
             Job job, Done done);
  /// The job has ended: forgets what was looked up. A resumed job looks it up again.
  void Forget();
  /// Drops the calls that wait for the store, because they hold the job.
  void Abandon();

 private:
  struct Call;
  using Use = std::function<void(const PromptHistory&)>;
  struct StoredRows {
    std::string uid;                            // of the job
    std::shared_ptr<const PromptHistory> rows;  // null: they are being read, for `waiting`
    std::vector<Use> waiting;
  };

  void AddStored(const std::shared_ptr<Call>& call);
  void AddSeed(const std::shared_ptr<Call>& call);
  void AddSeedOf(const std::shared_ptr<Call>& call, const std::string& name, const FoundJob& found);
  static void Answer(Call& call, BatchSource seed);
  /// Runs `use` with the responses whose rows are in the store; they are read the first time.
  void WithStored(const Call& call, const std::string& job, const std::string& uid, uint64_t end,
                  Use use);
  void Read(const Job& through, const std::string& job, const std::string& uid,
            const std::shared_ptr<StoredHistory>& rows);

  const RuntimeContext* const context_;
  const std::string name_, uid_;
  const std::shared_ptr<const v1::Job> submitted_;
  std::map<std::string, StoredRows> stored_;  // of this job and its seed, by name
  const std::shared_ptr<std::atomic<int>> served_ = std::make_shared<std::atomic<int>>(0);
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_JOB_JOB_HISTORY_H_
