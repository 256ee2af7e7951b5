// Controller: the methods of JobService, and FetchBatch.
#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "controller/access/caller.h"
#include "controller/runtime/controller.h"
#include "controller/runtime/tables.h"
#include "sdk/base/status_macros.h"
#include "sdk/rpc/error.h"

namespace baton::controller {
namespace {

int PageSize(int asked, int standard) { return asked <= 0 ? standard : std::min(asked, 1000); }

// Reads payloads one after the other, each on the job's disk strand. Keeps itself alive.
constexpr size_t kMaxPageBytes = 32u << 20;

struct PayloadReader : std::enable_shared_from_this<PayloadReader> {
  std::shared_ptr<JobRuntime> job;
  std::vector<store::v1::TrajectoryRow> rows;
  std::vector<uint64_t> serials;  ///< One per row.
  v1::ListTrajectoriesResponse answer;
  bool with_columns = false;
  Callback<v1::ListTrajectoriesResponse> done;

  void Next(size_t i) {
    if (i > 0 && i < rows.size() && answer.ByteSizeLong() > kMaxPageBytes) {
      // A message holds 64 MiB: the rest is another page.
      answer.set_next_page_token(absl::StrCat(absl::Hex(serials[i - 1])));
      return done(std::move(answer));
    }
    if (i == rows.size()) return done(std::move(answer));
    const store::v1::TrajectoryRow& row = rows[i];
    job->ReadPayloadAsync({row.file(), row.offset(), row.size()},
                          [self = shared_from_this(), i](absl::StatusOr<std::string> bytes) {
                            self->Add(self->rows[i], bytes);
                            self->Next(i + 1);
                          });
  }

  void Add(const store::v1::TrajectoryRow& row, const absl::StatusOr<std::string>& bytes) {
    v1::Trajectory* t = answer.add_trajectories();
    if (!bytes.ok() || !t->ParseFromString(*bytes)) {
      t->Clear();
      t->set_error("the payload is no longer kept");
    }
    if (!with_columns) t->clear_columns();
    t->set_trajectory_id(TrajectoryName(row.id()));
    t->set_purpose(row.purpose());
    t->set_step(static_cast<uint64_t>(row.step()));
    t->set_policy_version(row.policy_version());
    for (const auto& [name, value] : row.scores()) (*t->mutable_scores())[name] = value;
    if (!row.error().empty()) t->set_error(row.error());
  }
};

}  // namespace

absl::StatusOr<std::shared_ptr<JobRuntime>> Controller::FindJob(const std::string& name) const {
  absl::MutexLock lock(&mu_);
  auto it = jobs_.find(FullJobName(name));
  if (it != jobs_.end() && it->second->visible()) return it->second;
  return MakeError(absl::StatusCode::kNotFound, "JOB_NOT_FOUND",
                   absl::StrCat("no job '", name, "'; `baton jobs` lists them"), {{"job", name}});
}

std::shared_ptr<JobRuntime> Controller::FindJobOf(const TaskToken& token) const {
  auto job = FindJob(token.job.substr(0, token.job.find('#')));
  return job.ok() && (*job)->token_name() == token.job ? *job : nullptr;
}

void Controller::GetJob(v1::GetJobRequest request, Callback<v1::Job> done) {
  auto job = FindJob(request.name());
  if (!job.ok()) return done(job.status());
  done((*job)->Snapshot());
}

void Controller::ListJobs(v1::ListJobsRequest request, Callback<v1::ListJobsResponse> done) {
  const std::string project = request.project().empty() ? "default" : request.project();
  const std::string prefix = project == "-" ? "" : FullJobName("", project);
  std::vector<std::pair<int64_t, std::shared_ptr<JobRuntime>>> found;
  int64_t before = std::numeric_limits<int64_t>::max();
  if (!request.page_token().empty() && !absl::SimpleAtoi(request.page_token(), &before)) {
    return done(MakeError(absl::StatusCode::kInvalidArgument, "PAGE_TOKEN",
                          "page_token is not one that ListJobs gave"));
  }
  {
    absl::MutexLock lock(&mu_);
    for (const auto& [name, job] : jobs_) {
      if (job->visible() && absl::StartsWith(name, prefix) && order_.at(name) < before) {
        found.emplace_back(order_.at(name), job);
      }
    }
  }
  std::sort(found.rbegin(), found.rend());
  v1::ListJobsResponse answer;
  const int size = PageSize(request.page_size(), 100);
  size_t bytes = 0;  // of a page: a message holds 64 MiB
  for (const auto& [order, job] : found) {
    const auto& states = request.states();
    if (!states.empty() && std::find(states.begin(), states.end(), job->state()) == states.end()) {
      continue;
    }
    v1::Job snapshot = job->Snapshot();
    bytes += snapshot.ByteSizeLong();
    if (answer.jobs_size() == size || (answer.jobs_size() > 0 && bytes > kMaxPageBytes)) {
      answer.set_next_page_token(absl::StrCat(order + 1));
      break;
    }
    *answer.add_jobs() = std::move(snapshot);
  }
  done(std::move(answer));
}

void Controller::CancelJob(v1::CancelJobRequest request, Callback<v1::Job> done) {
  auto job = FindJob(request.name());
  if (!job.ok()) return done(job.status());
  (*job)->PostAndDescribe(CancelRequested{}, nullptr, std::move(done));
}

void Controller::PauseJob(v1::PauseJobRequest request, Callback<v1::Job> done) {
  auto job = FindJob(request.name());
  if (!job.ok()) return done(job.status());
  auto check = [](const JobCore& core) -> absl::Status {
    if (!IsTerminal(core.state()) && core.state() != v1::Job::STATE_STOPPING) {
      return absl::OkStatus();
    }
    return MakeError(absl::StatusCode::kFailedPrecondition, "JOB_ENDED",
                     absl::StrCat("job '", core.name(), "' is ", StateName(core.state()),
                                  " and cannot be paused"));
  };
  (*job)->PostAndDescribe(PauseRequested{}, check, std::move(done));
}

void Controller::ResumeJob(v1::ResumeJobRequest request, Callback<v1::Job> done) {
  auto job = FindJob(request.name());
  if (!job.ok()) return done(job.status());
  auto check = [](const JobCore& core) -> absl::Status {
    if (!IsTerminal(core.state()) && core.state() != v1::Job::STATE_STOPPING) {
      return absl::OkStatus();
    }
    return MakeError(absl::StatusCode::kFailedPrecondition, "JOB_ENDED",
                     absl::StrCat("job '", core.name(), "' is ", StateName(core.state()),
                                  " and cannot be resumed; submit it again with model.path: job:",
                                  core.name().substr(core.name().rfind('/') + 1)));
  };
  (*job)->PostAndDescribe(ResumeRequested{}, check, std::move(done));
}

void Controller::DeleteJob(v1::DeleteJobRequest request, Callback<v1::DeleteJobResponse> done) {
  auto job = FindJob(request.name());
  if (!job.ok()) return done(job.status());
  if (const v1::Job::State state = (*job)->state(); !IsTerminal(state)) {
    return done(MakeError(
        absl::StatusCode::kFailedPrecondition, "JOB_ACTIVE",
        absl::StrCat("job '", request.name(), "' is ", StateName(state), "; cancel it first")));
  }
  (*job)->Retire([this, job = *job, done = std::move(done)](bool first) {
    if (!first) {
      return done(MakeError(absl::StatusCode::kNotFound, "JOB_NOT_FOUND",
                            absl::StrCat("job '", job->name(), "' is being deleted"),
                            {{"job", job->name()}}));
    }
    gate_.Post(admission_, [this, job, done] { Delete(job, done); });
  });
}

// The name is free again when nothing of the job is left: a new job of that name must not meet
// the old one's rows or files, nor their removal.
void Controller::Delete(const std::shared_ptr<JobRuntime>& job,
                        const Callback<v1::DeleteJobResponse>& done) {
  auto rows = RowsOf(job->name());
  if (!rows.ok()) {
    job->Unretire();
    return done(rows.status());
  }
  store_->Commit(*std::move(rows), [this, job, done](absl::Status status) {
    if (!status.ok()) return done(status);
    job->Hide();
    job->RemoveFiles([this, job, done] {
      {
        absl::MutexLock lock(&mu_);
        jobs_.erase(job->name());
        order_.erase(job->name());
      }
      done(v1::DeleteJobResponse());
    });
  });
}

// Deletions of everything that the store has of a job.
absl::StatusOr<std::vector<store::Write>> Controller::RowsOf(const std::string& name) {
  std::vector<store::Write> writes = {{kJobTable, name, std::nullopt},
                                      {kSpecTable, name, std::nullopt},
                                      {kRestoreTable, name, std::nullopt}};
  for (const char* table : {kEventTable, kMetricTable, kTrajectoryTable, kLogTable}) {
    BATON_ASSIGN_OR_RETURN(auto rows, store_->Scan(table, NumberRange(name, 0)));
    for (const store::Row& row : rows) writes.push_back({table, row.key, std::nullopt});
  }
  BATON_ASSIGN_OR_RETURN(auto requests, store_->Scan(kRequestTable, {}));
  for (const store::Row& stored : requests) {
    store::v1::RequestRow row;
    if (row.ParseFromString(stored.value) && row.job() == name) {
      writes.push_back({kRequestTable, stored.key, std::nullopt});
    }
  }
  return writes;
}

void Controller::ListMetrics(v1::ListMetricsRequest request,
                             Callback<v1::ListMetricsResponse> done) {
  auto job = FindJob(request.name());
  if (!job.ok()) return done(job.status());
  const std::string name = (*job)->name();
  OnDisk<v1::ListMetricsResponse>(
      std::move(done), [this, name, request]() -> absl::StatusOr<v1::ListMetricsResponse> {
        const uint64_t begin =
            request.after_step() > 0 ? static_cast<uint64_t>(request.after_step()) + 1 : 0;
        BATON_ASSIGN_OR_RETURN(auto rows, store_->Scan(kMetricTable, NumberRange(name, begin)));
        const int size = request.page_size() <= 0 ? 1000 : std::min(request.page_size(), 100000);
        v1::ListMetricsResponse answer;
        for (const store::Row& row : rows) {
          v1::StepMetrics metrics;
          if (!metrics.ParseFromString(row.value)) continue;
          const int last = answer.steps_size() - 1;
          v1::StepMetrics* step = nullptr;
          if (last >= 0 && answer.steps(last).step() == metrics.step()) {
            step = answer.mutable_steps(last);  // its evaluation
          } else {
            if (answer.steps_size() == size) break;
            step = answer.add_steps();
            step->set_step(metrics.step());
          }
          for (const auto& [key, value] : metrics.metrics()) {
            const auto& prefixes = request.prefixes();
            const bool wanted =
                prefixes.empty() || std::any_of(prefixes.begin(), prefixes.end(),
                                                [&, &key = key](const std::string& prefix) {
                                                  return absl::StartsWith(key, prefix);
                                                });
            if (wanted) (*step->mutable_metrics())[key] = value;
          }
        }
        return answer;
      });
}

void Controller::ListTrajectories(v1::ListTrajectoriesRequest request,
                                  Callback<v1::ListTrajectoriesResponse> done) {
  auto job = FindJob(request.name());
  if (!job.ok()) return done(job.status());
  gate_.Post(disk_.get_executor(), [this, job = *job, request = std::move(request),
                                    done = std::move(done)] {
    store::ScanOptions scan = NumberRange(job->name(), 0);
    scan.reverse = true;
    if (!request.page_token().empty()) {
      uint64_t serial = 0;
      if (!absl::SimpleHexAtoi(request.page_token(), &serial)) {
        return done(MakeError(absl::StatusCode::kInvalidArgument, "PAGE_TOKEN",
                              "page_token is not one that ListTrajectories gave"));
      }
      scan.end = NumberKey(job->name(), serial);
    }
    auto rows = store_->Scan(kTrajectoryTable, scan);
    if (!rows.ok()) return done(rows.status());
    v1::ListTrajectoriesResponse answer;
    std::vector<store::v1::TrajectoryRow> chosen;
    std::vector<uint64_t> serials;
    const auto size = static_cast<size_t>(PageSize(request.page_size(), 20));
    for (const store::Row& stored : *rows) {
      store::v1::TrajectoryRow row;
      if (!row.ParseFromString(stored.value)) continue;
      if (request.purpose() != v1::PURPOSE_UNSPECIFIED && row.purpose() != request.purpose()) {
        continue;
      }
      if (request.step() != 0 && row.step() != request.step()) continue;
      chosen.push_back(std::move(row));
      serials.push_back(KeyNumber(stored.key));
      if (chosen.size() == size) {
        answer.set_next_page_token(absl::StrCat(absl::Hex(serials.back())));
        break;
      }
    }
    auto reader = std::make_shared<PayloadReader>();
    reader->job = job;
    reader->rows = std::move(chosen);
    reader->serials = std::move(serials);
    reader->answer = std::move(answer);
    reader->with_columns = request.with_columns();
    reader->done = done;
    reader->Next(0);
  });
}

void Controller::ListCheckpoints(v1::ListCheckpointsRequest request,
                                 Callback<v1::ListCheckpointsResponse> done) {
  auto job = FindJob(request.name());
  if (!job.ok()) return done(job.status());
  (*job)->Checkpoints([done = std::move(done)](absl::StatusOr<std::vector<v1::Checkpoint>> all) {
    v1::ListCheckpointsResponse answer;
    for (auto it = all->rbegin(); it != all->rend(); ++it) *answer.add_checkpoints() = *it;
    done(std::move(answer));
  });
}

void Controller::ExportCheckpoint(v1::ExportCheckpointRequest request,
                                  Callback<v1::ExportCheckpointResponse> done) {
  auto job = FindJob(request.name());
  if (!job.ok()) return done(job.status());
  if (!absl::StartsWith(request.directory(), "/")) {
    return done(MakeError(absl::StatusCode::kInvalidArgument, "EXPORT_DIRECTORY",
                          absl::StrCat("directory '", request.directory(),
                                       "' is not an absolute path on the worker's machine")));
  }
  const absl::Status open =
      paths_.CheckExport(request.directory(), access::ProjectOf((*job)->name()));
  if (!open.ok()) return done(open);
  (*job)->Checkpoints([this, request, name = (*job)->name(),
                       done = std::move(done)](absl::StatusOr<std::vector<v1::Checkpoint>> all) {
    const v1::Checkpoint* chosen = nullptr;
    for (const v1::Checkpoint& checkpoint : *all) {
      if (request.step() == 0 || checkpoint.step() == request.step()) chosen = &checkpoint;
    }
    if (chosen == nullptr) {
      return done(
          MakeError(absl::StatusCode::kNotFound, "CHECKPOINT_NOT_FOUND",
                    request.step() == 0
                        ? absl::StrCat("job '", request.name(), "' has no complete checkpoint yet")
                        : absl::StrCat("job '", request.name(), "' keeps no checkpoint of step ",
                                       request.step(), "; `baton checkpoints` lists them")));
    }
    PendingExport pending;
    pending.directory = request.directory();
    pending.step = chosen->step();
    pending.done = done;
    SendExport(name, chosen->path(), std::move(pending));
  });
}

void Controller::ExplainJob(v1::ExplainJobRequest request, Callback<v1::ExplainJobResponse> done) {
  auto job = FindJob(request.name());
  if (!job.ok()) return done(job.status());
  (*job)->Explain([this, name = (*job)->name(),
                   done = std::move(done)](absl::StatusOr<v1::ExplainJobResponse> answer) {
    if (!answer.ok()) return done(std::move(answer));
    OnCluster([this, name, done, answer = *std::move(answer)]() mutable {
      cluster_->Explain(name, clock_.Now(), &answer);
      done(std::move(answer));
    });
  });
}

std::unique_ptr<Subscription> Controller::WatchJob(v1::WatchJobRequest request,
                                                   std::shared_ptr<EventSink> sink) {
  auto job = FindJob(request.name());
  if (!job.ok()) {
    sink->OnEnd(job.status());
    return nullptr;
  }
  return (*job)->Watch(request.after_revision(), std::move(sink));
}

std::unique_ptr<Subscription> Controller::ReadLogs(v1::ReadLogsRequest request,
                                                   std::shared_ptr<LogSink> sink) {
  auto job = FindJob(request.name());
  if (!job.ok()) {
    sink->OnEnd(job.status());
    return nullptr;
  }
  return (*job)->ReadLogs(request.after_sequence(), request.follow(), std::move(sink));
}

void Controller::FetchBatch(v1::FetchBatchRequest request,
                            Callback<std::vector<v1::Trajectory>> done) {
  auto job = FindJob(request.job());
  if (!job.ok()) return done(job.status());
  (*job)->FetchBatch(request, std::move(done));
}

void Controller::Metrics(std::function<void(std::vector<GaugeSample>)> done) {
  std::vector<v1::Job> jobs;
  {
    absl::MutexLock lock(&mu_);
    for (const auto& [name, job] : jobs_) {
      if (job->visible()) jobs.push_back(job->Brief());
    }
  }
  OnCluster([this, jobs = std::move(jobs), done = std::move(done)] {
    std::vector<GaugeSample> samples;
    for (const v1::Job& job : jobs) {
      const std::map<std::string, std::string> labels = {{"job", job.name()}};
      samples.push_back({"baton_job_state", labels, static_cast<double>(job.state())});
      samples.push_back({"baton_job_step", labels, static_cast<double>(job.step())});
      samples.push_back(
          {"baton_job_policy_version", labels, static_cast<double>(job.policy_version())});
      for (const auto& [name, value] : job.metrics()) {
        samples.push_back({"baton_job_metric", {{"job", job.name()}, {"name", name}}, value});
      }
    }
    std::map<std::string, int> states;
    for (const v1::Worker& worker : cluster_->List(clock_.Now())) {
      ++states[worker.state() == v1::Worker::STATE_READY      ? "ready"
               : worker.state() == v1::Worker::STATE_DRAINING ? "draining"
                                                              : "lost"];
    }
    for (const auto& [state, count] : states) {
      samples.push_back({"baton_workers", {{"state", state}}, static_cast<double>(count)});
    }
    samples.push_back({"baton_controller_epoch", {}, static_cast<double>(context_.epoch)});
    done(std::move(samples));
  });
}

}  // namespace baton::controller
