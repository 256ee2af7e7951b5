// Controller: the methods of JobService, and those of ExperienceService.
#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "controller/access/caller.h"
#include "controller/runtime/cluster/steering_checks.h"
#include "controller/runtime/cluster/take_over.h"
#include "controller/runtime/controller/controller.h"
#include "controller/runtime/controller/delete_job.h"
#include "controller/runtime/files/checkpoint_choice.h"
#include "controller/runtime/files/job_folders.h"
#include "controller/runtime/rows/tables.h"
#include "sdk/base/log.h"
#include "sdk/base/mutant.h"
#include "sdk/base/status_macros.h"
#include "sdk/rpc/error.h"

namespace baton::controller {
namespace {

// Rows that DeleteJob deletes in one commit; few, so that other commits do not wait long.
constexpr size_t kDeletedAtOnce = 1000;
// Prometheus gives each sample a label `job` of its own, the name of the scrape job, and would
// store a label of that name as `exported_job`.
constexpr char kJobLabel[] = "baton_job";

// A subscription to an ended job, which is read from its rows first.
class LateSubscription : public Subscription {
 public:
  using Subscribe = std::function<std::unique_ptr<Subscription>()>;
  struct State {
    absl::Mutex mu;
    bool over ABSL_GUARDED_BY(mu) = false;
    std::unique_ptr<Subscription> begun ABSL_GUARDED_BY(mu);

    void Begin(const Subscribe& subscribe) {
      absl::MutexLock lock(&mu);
      if (!over) begun = subscribe();
    }
  };

  explicit LateSubscription(std::shared_ptr<State> state) : state_(std::move(state)) {}
  ~LateSubscription() override {
    absl::MutexLock lock(&state_->mu);
    state_->over = true;
    state_->begun = nullptr;
  }

 private:
  const std::shared_ptr<State> state_;
};

}  // namespace

void Controller::GetJob(v1::GetJobRequest request, Callback<v1::Job> done) {
  const std::string name = FullJobName(request.name());
  if (const auto job = jobs_.Find(name)) return done(job->Snapshot());
  executors_.PostRead([this, name, given = request.name(), done = std::move(done)] {
    auto job = ended_->Describe(name);
    if (absl::IsNotFound(job.status())) return done(NoSuchJob(given));
    if (!absl::IsDataLoss(job.status())) return done(std::move(job));
    // It is shown as set aside.
    WithJob(name, done,
            [done](const std::shared_ptr<JobRuntime>& aside) { done(aside->Snapshot()); });
  });
}

void Controller::CancelJob(v1::CancelJobRequest request, Callback<v1::Job> done) {
  Steer({"CancelJob", request.name(), request.request_id()}, CancelRequested{}, nullptr,
        std::move(done));
}

void Controller::PauseJob(v1::PauseJobRequest request, Callback<v1::Job> done) {
  Steer({"PauseJob", request.name(), request.request_id()}, PauseRequested{}, CheckPause,
        std::move(done));
}

void Controller::ResumeJob(v1::ResumeJobRequest request, Callback<v1::Job> done) {
  OncePerRequest(
      {"ResumeJob", request.name(), request.request_id()},
      [this](const std::shared_ptr<JobRuntime>& job, JobRuntime::ExtraRow extra,
             Callback<v1::Job> resumed) {
        gate_.Post(admission_, [this, job, extra = std::move(extra), resumed = std::move(resumed)] {
          Resume(job, extra, resumed);
        });
      },
      std::move(done));
}

// On admission_, where every call that makes an unfinished job is counted. A job that is being
// resumed counts from here on: its state changes only when the turn is committed.
void Controller::Resume(const std::shared_ptr<JobRuntime>& job, const JobRuntime::ExtraRow& extra,
                        const Callback<v1::Job>& done) {
  const std::string& name = job->name();
  if (IsTerminal(job->state()) && resuming_.count(name) == 0) {  // one more unfinished job
    const absl::Status quota = CheckJobQuota(access::ProjectOf(name));
    if (!quota.ok()) return done(quota);
  }
  if (!Mutant("resumed-job-not-counted")) resuming_.insert(name);
  job->PostAndDescribe(ResumeRequested{}, CheckResume, extra,
                       [this, name, done](absl::StatusOr<v1::Job> resumed) {
                         gate_.Post(admission_, [this, name, done, resumed = std::move(resumed)] {
                           if (const auto it = resuming_.find(name); it != resuming_.end()) {
                             resuming_.erase(it);
                           }
                           done(resumed);
                         });
                       });
}

void Controller::DeleteJob(v1::DeleteJobRequest request, Callback<v1::DeleteJobResponse> done) {
  const SteerCall call = {"DeleteJob", request.name(), request.request_id()};
  OncePerRequest(
      call,
      [this, call](const std::shared_ptr<JobRuntime>& job, JobRuntime::ExtraRow extra,
                   Callback<v1::Job> gone) {
        if (const v1::Job::State state = job->state(); !IsTerminal(state)) {
          return gone(MakeError(
              absl::StatusCode::kFailedPrecondition, "JOB_ACTIVE",
              absl::StrCat("job '", call.name, "' is ", StateName(state), "; cancel it first")));
        }
        job->Retire([this, job, extra = std::move(extra), gone = std::move(gone)](bool first) {
          if (!first) {
            if (!IsTerminal(job->state())) {
              return gone(MakeError(absl::StatusCode::kFailedPrecondition, "JOB_ACTIVE",
                                    absl::StrCat("job '", job->name(), "' was resumed")));
            }
            return gone(MakeError(absl::StatusCode::kNotFound, "JOB_NOT_FOUND",
                                  absl::StrCat("job '", job->name(), "' is being deleted"),
                                  {{"job", job->name()}}));
          }
          executors_.PostRead([this, job, extra, gone] { DeleteRows(job, extra, gone); });
        });
      },
      [done = std::move(done)](const absl::StatusOr<v1::Job>& gone) {
        if (!gone.ok()) return done(gone.status());
        done(v1::DeleteJobResponse());
      });
}

// The name becomes free when nothing of the job is left, because a new job with this name must not
// find the old job's rows or files, or lose its own to their removal. The job's own row is deleted
// last. So if the controller dies before, it still has the job, and the deletion can be repeated.
// If it dies after, the next start removes the rest of the folder (FinishRemovals).
//
// The threads that read lists look for the rows: admission does not wait while they read many.
void Controller::DeleteRows(const std::shared_ptr<JobRuntime>& job,
                            const JobRuntime::ExtraRow& extra, const Callback<v1::Job>& done) {
  auto rows = DeletionsBelow(*store_, job->name(), kDeletedAtOnce);
  if (!rows.ok()) {
    job->Unretire();
    return done(rows.status());
  }
  if (!rows->empty()) {
    store_->Commit(*std::move(rows), [this, job, extra, done](absl::Status status) {
      if (!status.ok()) {
        job->Unretire();
        return done(status);
      }
      executors_.PostRead([this, job, extra, done] { DeleteRows(job, extra, done); });
    });
    return;
  }
  gate_.Post(admission_, [this, job, extra, done] { DeleteLast(job, extra, done); });
}

// On admission_. What it costs does not depend on what the job has stored.
void Controller::DeleteLast(const std::shared_ptr<JobRuntime>& job,
                            const JobRuntime::ExtraRow& extra, const Callback<v1::Job>& done) {
  const int64_t order = jobs_.Get(job->name()).order;
  std::vector<store::Write> last = LastDeletions(*store_, job->name(), job->uid(), order);
  if (const absl::Status marked =
          MarkDeleted(JobFolderOf(options_.data_root, job->name()), job->uid());
      !marked.ok()) {
    Log(LogLevel::kWarn, "if the controller dies now, the folder of a deleted job stays",
        {{"job", job->name()}, {"error", marked.message()}});
  }
  if (extra) last.push_back(extra(v1::Job()));
  store_->Commit(std::move(last), [this, job, done](absl::Status status) {
    if (!status.ok()) {
      job->Unretire();
      return done(status);
    }
    job->RemoveFiles([this, job, done](const absl::Status& removed) {
      if (removed.ok()) {
        store_->Commit({{kRemovalTable, job->name(), std::nullopt}}, store::Durability::kProcess,
                       [](const absl::Status&) {});
      } else {
        Log(LogLevel::kWarn, "the folder of a deleted job stays until the next start",
            {{"job", job->name()}, {"error", removed.message()}});
      }
      jobs_.Erase(job->name());
      ended_->Count(job->name(), -1);
      job_deleted_ = true;
      done(v1::Job());
    });
  });
}

// Jobs whose deletion was committed, but a crash came before the removal of their folders. A folder
// without the job's mark was put there later, and stays.
absl::Status Controller::FinishRemovals() {
  BATON_ASSIGN_OR_RETURN(const auto rows, store_->Scan(kRemovalTable, {}));
  std::vector<store::Write> over;
  for (const store::Row& stored : rows) {
    store::v1::RemovalRow removal;
    if (access::ValidResource(stored.key) && !ended_->Exists(stored.key) &&
        removal.ParseFromString(stored.value)) {
      const std::string folder = JobFolderOf(options_.data_root, stored.key);
      if (IsMarkedDeleted(folder, removal.uid())) {
        const absl::Status removed = RemoveJobFolder(options_.data_root, folder);
        Log(removed.ok() ? LogLevel::kInfo : LogLevel::kWarn,
            removed.ok() ? "removed the folder of a deleted job"
                         : "the folder of a deleted job stays until the next start",
            {{"job", stored.key}, {"folder", folder}, {"error", removed.message()}});
        if (!removed.ok()) continue;
      }
    }
    over.push_back({kRemovalTable, stored.key, std::nullopt});
  }
  return over.empty() ? absl::OkStatus() : CommitNow(*store_, std::move(over));
}

void Controller::ExportCheckpoint(v1::ExportCheckpointRequest request,
                                  Callback<v1::ExportCheckpointResponse> done) {
  if (!absl::StartsWith(request.directory(), "/")) {
    return done(MakeError(absl::StatusCode::kInvalidArgument, "EXPORT_DIRECTORY",
                          absl::StrCat("directory '", request.directory(),
                                       "' is not an absolute path on the worker's machine")));
  }
  if (request.best() && request.step() != 0) {
    return done(absl::InvalidArgumentError("give a step, or best: not both"));
  }
  const std::string& dtype = request.dtype();
  if (!dtype.empty() && dtype != "float32" && dtype != "bfloat16" && dtype != "float16") {
    return done(
        MakeError(absl::StatusCode::kInvalidArgument, "EXPORT_DTYPE",
                  absl::StrCat("dtype '", dtype,
                               "' is not one of: float32, bfloat16, float16; without one the "
                               "weights are float32, as they are trained")));
  }
  const std::string name = FullJobName(request.name());
  const absl::Status open = paths_.CheckExport(request.directory(), access::ProjectOf(name));
  if (!open.ok()) return done(open);
  const auto choose = [this, request, name, done](const std::string& base,
                                                  absl::StatusOr<std::vector<v1::Checkpoint>> all) {
    if (!all.ok()) return done(all.status());
    const std::string which = request.best()        ? "best"
                              : request.step() == 0 ? ""
                                                    : absl::StrCat(request.step());
    const auto chosen = ChooseCheckpoint(request.name(), which, *all);
    if (!chosen.ok()) return done(chosen.status());
    PendingExport pending;
    pending.directory = request.directory();
    pending.dtype = request.dtype().empty() ? "float32" : request.dtype();
    pending.base_model = base;
    pending.step = chosen->step();
    pending.done = done;
    cluster_->Export(name, chosen->path(), std::move(pending));
  };
  WithJob(name, done, [choose](const std::shared_ptr<JobRuntime>& job) {
    const std::string base = job->AsFound().submitted->effective_spec().model().path();
    job->Checkpoints([choose, base](absl::StatusOr<std::vector<v1::Checkpoint>> all) {
      choose(base, std::move(all));
    });
  });
}

bool Controller::Shows(const std::string& job) const {
  const auto live = jobs_.Get(job).job;
  return live == nullptr ? ended_->Exists(job) : live->visible();
}

void Controller::CheckpointsOf(const std::string& name,
                               Callback<std::vector<v1::Checkpoint>> done) {
  WithJob(name, done, [done](const std::shared_ptr<JobRuntime>& job) { job->Checkpoints(done); });
}

void Controller::ExplainJob(v1::ExplainJobRequest request, Callback<v1::ExplainJobResponse> done) {
  const auto explain = [this, done](const std::shared_ptr<JobRuntime>& job) {
    job->Explain([this, name = job->name(), done](absl::StatusOr<v1::ExplainJobResponse> answer) {
      if (!answer.ok()) return done(std::move(answer));
      cluster_->Post([this, name, done, answer = *std::move(answer)]() mutable {
        cluster_->core().Explain(name, cluster_->now(), &answer);
        done(std::move(answer));
      });
    });
  };
  WithJob(request.name(), done, explain);
}

std::unique_ptr<Subscription> Controller::WatchJob(v1::WatchJobRequest request,
                                                   std::shared_ptr<EventSink> sink) {
  const int64_t after = request.after_revision();
  if (const auto job = jobs_.Find(FullJobName(request.name()))) return job->Watch(after, sink);
  const auto state = std::make_shared<LateSubscription::State>();
  WithJob(
      request.name(), [sink](const absl::Status& status) { sink->OnEnd(status); },
      [state, after, sink](const std::shared_ptr<JobRuntime>& job) {
        state->Begin([&] { return job->Watch(after, sink); });
      });
  return std::make_unique<LateSubscription>(state);
}

std::unique_ptr<Subscription> Controller::ReadLogs(v1::ReadLogsRequest request,
                                                   std::shared_ptr<LogSink> sink) {
  const int64_t after = request.after_sequence();
  const bool follow = request.follow();
  if (const auto job = jobs_.Find(FullJobName(request.name()))) {
    return job->ReadLogs(after, follow, sink);
  }
  const auto state = std::make_shared<LateSubscription::State>();
  WithJob(
      request.name(), [sink](const absl::Status& status) { sink->OnEnd(status); },
      [state, after, follow, sink](const std::shared_ptr<JobRuntime>& job) {
        state->Begin([&] { return job->ReadLogs(after, follow, sink); });
      });
  return std::make_unique<LateSubscription>(state);
}

std::unique_ptr<WorkerSession> Controller::Attach(std::shared_ptr<WorkerStream> stream) {
  return cluster_->Attach(std::move(stream));
}

void Controller::FetchBatch(v1::FetchBatchRequest request, Callback<BatchPart> done) {
  const auto fetch = [request, done](const std::shared_ptr<JobRuntime>& job) {
    job->FetchBatch(request, done);
  };
  WithJob(request.job(), done, fetch);
}

void Controller::FetchHistory(v1::FetchHistoryRequest request,
                              Callback<std::shared_ptr<HistoryPart>> done) {
  const auto fetch = [request, done](const std::shared_ptr<JobRuntime>& job) {
    job->FetchHistory(request, done);
  };
  WithJob(request.job(), done, fetch);
}

void Controller::Metrics(std::function<void(std::vector<GaugeSample>)> done) {
  std::vector<v1::Job> jobs;
  for (const auto& [job, order] : jobs_.Below("")) {
    if (job->visible()) jobs.push_back(job->Brief());
  }
  cluster_->Post([this, jobs = std::move(jobs), done = std::move(done)] {
    std::vector<GaugeSample> samples;
    for (const v1::Job& job : jobs) {
      const std::map<std::string, std::string> labels = {{kJobLabel, job.name()}};
      samples.push_back({"baton_job_state", labels, static_cast<double>(job.state())});
      samples.push_back({"baton_job_step", labels, static_cast<double>(job.step())});
      samples.push_back(
          {"baton_job_policy_version", labels, static_cast<double>(job.policy_version())});
      for (const auto& [name, value] : job.metrics()) {
        samples.push_back({"baton_job_metric", {{kJobLabel, job.name()}, {"name", name}}, value});
      }
    }
    std::map<std::string, int> states;
    for (const v1::Worker& worker : cluster_->core().workers().List(cluster_->now())) {
      ++states[worker.state() == v1::Worker::STATE_READY      ? "ready"
               : worker.state() == v1::Worker::STATE_DRAINING ? "draining"
                                                              : "lost"];
    }
    for (const auto& [state, count] : states) {
      samples.push_back({"baton_workers", {{"state", state}}, static_cast<double>(count)});
    }
    const PayloadBudget& payloads = *context_.payloads;
    const std::map<std::string, uint64_t> payload_bytes = {{"cached", payloads.cached()},
                                                           {"unwritten", payloads.unwritten()},
                                                           {"batch", payloads.batches()},
                                                           {"budget", payloads.limit()}};
    for (const auto& [state, bytes] : payload_bytes) {
      samples.push_back({"baton_payload_bytes", {{"state", state}}, static_cast<double>(bytes)});
    }
    samples.push_back({"baton_controller_epoch", {}, static_cast<double>(context_.epoch)});
    done(std::move(samples));
  });
}

}  // namespace baton::controller
