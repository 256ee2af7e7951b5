#include "controller/runtime/controller/jobs.h"

#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "controller/access/caller.h"
#include "controller/runtime/cluster/pause_checks.h"
#include "controller/runtime/job_files/checkpoint_choice.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {
namespace {

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

absl::Status CheckExport(const v1::ExportCheckpointRequest& request) {
  if (!absl::StartsWith(request.directory(), "/")) {
    return MakeError(absl::StatusCode::kInvalidArgument, "EXPORT_DIRECTORY",
                     absl::StrCat("directory '", request.directory(),
                                  "' is not an absolute path on the worker's machine"));
  }
  if (request.best() && request.step() != 0) {
    return absl::InvalidArgumentError("give a step, or best: not both");
  }
  const std::string& dtype = request.dtype();
  if (!dtype.empty() && dtype != "float32" && dtype != "bfloat16" && dtype != "float16") {
    return MakeError(absl::StatusCode::kInvalidArgument, "EXPORT_DTYPE",
                     absl::StrCat("dtype '", dtype,
                                  "' is not one of: float32, bfloat16, float16; without one the "
                                  "weights are float32, as they are trained"));
  }
  return absl::OkStatus();
}

absl::Status ActiveError(const std::string& job, const std::string& why) {
  return MakeError(absl::StatusCode::kFailedPrecondition, "JOB_ACTIVE",
                   absl::StrCat("job '", job, "' ", why));
}

// Lets the job's core handle `event`, unless `check` refuses it.
auto Handle(Event event, std::function<absl::Status(const JobCore&)> check) {
  return [event = std::move(event), check = std::move(check)](
             const std::shared_ptr<JobRuntime>& job, JobRuntime::ExtraRow extra,
             Callback<v1::Job> changed) {
    job->PostAndDescribe(event, check, std::move(extra), std::move(changed));
  };
}

}  // namespace

void Jobs::Get(const v1::GetJobRequest& request, Callback<v1::Job> done) const {
  const std::string name = FullJobName(request.name());
  if (const auto job = scope_->jobs.Find(name)) return done(job->Snapshot());
  scope_->executors.PostRead([this, name, given = request.name(), done = std::move(done)] {
    auto job = scope_->ended->Describe(name);
    if (absl::IsNotFound(job.status())) return done(NoSuchJob(given));
    if (!absl::IsDataLoss(job.status())) return done(std::move(job));
    // The job is shown as quarantined.
    scope_->FindJob(name, done,
                    [done](const std::shared_ptr<JobRuntime>& aside) { done(aside->Snapshot()); });
  });
}

void Jobs::Cancel(const v1::CancelJobRequest& request, Callback<v1::Job> done) {
  Change("CancelJob", request.name(), request.request_id(), Handle(CancelRequested{}, nullptr),
         std::move(done));
}

void Jobs::Pause(const v1::PauseJobRequest& request, Callback<v1::Job> done) {
  Change("PauseJob", request.name(), request.request_id(), Handle(PauseRequested{}, CheckPause),
         std::move(done));
}

void Jobs::Resume(const v1::ResumeJobRequest& request, Callback<v1::Job> done) {
  const auto act = [this](const std::shared_ptr<JobRuntime>& job, JobRuntime::ExtraRow extra,
                          Callback<v1::Job> resumed) {
    scope_->OnAdmission([this, job, extra = std::move(extra), resumed = std::move(resumed)] {
      ResumeCounted(job, extra, resumed);
    });
  };
  Change("ResumeJob", request.name(), request.request_id(), act, std::move(done));
}

void Jobs::ResumeCounted(const std::shared_ptr<JobRuntime>& job, const JobRuntime::ExtraRow& extra,
                         const Callback<v1::Job>& done) {
  if (absl::Status counted = projects_->BeginResume(*job); !counted.ok()) {
    return done(std::move(counted));
  }
  job->PostAndDescribe(ResumeRequested{}, CheckResume, extra,
                       [this, name = job->name(), done](absl::StatusOr<v1::Job> resumed) {
                         scope_->OnAdmission([this, name, done, resumed = std::move(resumed)] {
                           projects_->EndResume(name);
                           done(resumed);
                         });
                       });
}

void Jobs::Delete(const v1::DeleteJobRequest& request, Callback<v1::DeleteJobResponse> done) {
  const auto act = [this, name = request.name()](const std::shared_ptr<JobRuntime>& job,
                                                 JobRuntime::ExtraRow extra,
                                                 Callback<v1::Job> gone) {
    if (const v1::Job::State state = job->state(); !IsTerminal(state)) {
      return gone(ActiveError(name, absl::StrCat("is ", StateName(state), "; cancel it first")));
    }
    job->Retire([this, job, extra = std::move(extra), gone = std::move(gone)](bool first) {
      if (first) return remover_->Remove(job, extra, gone);
      if (!IsTerminal(job->state())) return gone(ActiveError(job->name(), "was resumed"));
      gone(MakeError(absl::StatusCode::kNotFound, "JOB_NOT_FOUND",
                     absl::StrCat("job '", job->name(), "' is being deleted"),
                     {{"job", job->name()}}));
    });
  };
  Change("DeleteJob", request.name(), request.request_id(), act,
         [done = std::move(done)](const absl::StatusOr<v1::Job>& gone) {
           if (!gone.ok()) return done(gone.status());
           done(v1::DeleteJobResponse());
         });
}

void Jobs::Change(const char* method, const std::string& name, const std::string& request_id,
                  Action act, Callback<v1::Job> done) {
  if (request_id.empty()) {
    return scope_->FindJob(name, done,
                           [act = std::move(act), done](const auto& job) { act(job, {}, done); });
  }
  const std::string full = FullJobName(name);
  Request request;
  request.id = request_id;
  request.project = access::ProjectOf(full);
  request.asked.set_method(method);
  request.asked.set_job(full);
  requests_->Once(
      request,
      [this, full, request, act = std::move(act)](const Callback<v1::Job>& changed) {
        const auto extra = [this, request, full](const v1::Job& after) {
          return requests_->RowOf(request, full, &after);
        };
        scope_->FindJob(full, changed,
                        [act, extra, changed](const auto& job) { act(job, extra, changed); });
      },
      [this](const store::v1::RequestRow& row, const Callback<v1::Job>& repeated) {
        repeated(OutcomeOf(row));
      },
      std::move(done));
}

v1::Job Jobs::OutcomeOf(const store::v1::RequestRow& row) const {
  v1::Job outcome = row.outcome();
  auto job = scope_->ended->Describe(FullJobName(row.job()));
  if (!job.ok() || job->uid() != outcome.uid()) return outcome;  // it was deleted
  v1::Job now = *std::move(job);
  outcome.mutable_spec()->Swap(now.mutable_spec());
  outcome.mutable_effective_spec()->Swap(now.mutable_effective_spec());
  outcome.mutable_dataflow()->Swap(now.mutable_dataflow());
  return outcome;
}

void Jobs::ExportCheckpoint(v1::ExportCheckpointRequest request,
                            Callback<v1::ExportCheckpointResponse> done) const {
  if (absl::Status good = CheckExport(request); !good.ok()) return done(std::move(good));
  const std::string name = FullJobName(request.name());
  const absl::Status open = scope_->paths.CheckExport(request.directory(), access::ProjectOf(name));
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
    scope_->cluster->Export(name, chosen->path(), std::move(pending));
  };
  scope_->FindJob(name, done, [choose](const std::shared_ptr<JobRuntime>& job) {
    const std::string base = job->AsFound().submitted->effective_spec().model().path();
    job->Checkpoints([choose, base](absl::StatusOr<std::vector<v1::Checkpoint>> all) {
      choose(base, std::move(all));
    });
  });
}

void Jobs::Explain(const v1::ExplainJobRequest& request,
                   Callback<v1::ExplainJobResponse> done) const {
  const auto explain = [this, done](const std::shared_ptr<JobRuntime>& job) {
    job->Explain([this, name = job->name(), done](absl::StatusOr<v1::ExplainJobResponse> answer) {
      if (!answer.ok()) return done(std::move(answer));
      scope_->cluster->Post([this, name, done, answer = *std::move(answer)]() mutable {
        scope_->cluster->core().Explain(name, scope_->cluster->now(), &answer);
        done(std::move(answer));
      });
    });
  };
  scope_->FindJob(request.name(), done, explain);
}

std::unique_ptr<Subscription> Jobs::Watch(const v1::WatchJobRequest& request,
                                          std::shared_ptr<EventSink> sink) const {
  const int64_t after = request.after_revision();
  if (const auto job = scope_->jobs.Find(FullJobName(request.name())))
    return job->Watch(after, sink);
  const auto state = std::make_shared<LateSubscription::State>();
  scope_->FindJob(
      request.name(), [sink](const absl::Status& status) { sink->OnEnd(status); },
      [state, after, sink](const std::shared_ptr<JobRuntime>& job) {
        state->Begin([&] { return job->Watch(after, sink); });
      });
  return std::make_unique<LateSubscription>(state);
}

std::unique_ptr<Subscription> Jobs::ReadLogs(const v1::ReadLogsRequest& request,
                                             std::shared_ptr<LogSink> sink) const {
  const int64_t after = request.after_sequence();
  const bool follow = request.follow();
  if (const auto job = scope_->jobs.Find(FullJobName(request.name()))) {
    return job->ReadLogs(after, follow, sink);
  }
  const auto state = std::make_shared<LateSubscription::State>();
  scope_->FindJob(
      request.name(), [sink](const absl::Status& status) { sink->OnEnd(status); },
      [state, after, follow, sink](const std::shared_ptr<JobRuntime>& job) {
        state->Begin([&] { return job->ReadLogs(after, follow, sink); });
      });
  return std::make_unique<LateSubscription>(state);
}

}  // namespace baton::controller
