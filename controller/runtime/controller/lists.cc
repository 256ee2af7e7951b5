#include "controller/runtime/controller/lists.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "controller/runtime/cluster/job_order.h"
#include "controller/runtime/rows/tables.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {
namespace {

// A message holds 64 MiB; the rest goes to the next page.
constexpr size_t kMaxPageBytes = 32u << 20;
// by one call with filters; the rest goes to the next page
constexpr size_t kMostRowsLookedAt = 20'000;
constexpr int kMostItems = 1000;
constexpr int kMostSteps = 100'000;

// The start of a page in a list with descending numbers: the first number below this.
absl::StatusOr<int64_t> NumberBefore(const Page& page) {
  if (page.first()) return std::numeric_limits<int64_t>::max();
  return page.NumberAfter();
}

// Reads payloads one after the other, each on the job's disk strand. It owns itself until the end.
struct PayloadReader : std::enable_shared_from_this<PayloadReader> {
  explicit PayloadReader(Page asked) : page(std::move(asked)) {}

  std::shared_ptr<JobRuntime> job;
  Page page;
  std::vector<store::v1::TrajectoryRow> rows;
  std::vector<uint64_t> serials;  ///< One per row.
  v1::ListTrajectoriesResponse answer;
  bool with_columns = false;
  Callback<v1::ListTrajectoriesResponse> done;

  void Next(size_t i) {
    if (i > 0 && i < rows.size() && answer.ByteSizeLong() > kMaxPageBytes) {
      answer.set_next_page_token(page.TokenAfter(static_cast<int64_t>(serials[i - 1])));
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
    const bool read =
        bytes.ok() && t->ParseFromString(*bytes) && t->trajectory_id() == TrajectoryName(row.id());
    if (!read) {
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
    t->set_infra_failed(row.infra_failed());
  }
};

// The trajectories of a page, newest first, without their payloads.
absl::Status ChooseTrajectories(store::Store& store, const v1::ListTrajectoriesRequest& request,
                                PayloadReader& reader) {
  store::ScanOptions scan = NumberRange(reader.job->name(), 0);
  scan.reverse = true;
  if (!reader.page.first()) {
    BATON_ASSIGN_OR_RETURN(const int64_t serial, reader.page.NumberAfter());
    scan.end = NumberKey(reader.job->name(), static_cast<uint64_t>(serial));
  }
  size_t looked_at = 0;
  return ScanInPieces(store, kTrajectoryTable, scan, [&](const store::Row& stored) {
    const uint64_t serial = KeyNumber(stored.key);
    store::v1::TrajectoryRow row;
    const bool wanted =
        row.ParseFromString(stored.value) &&
        (request.purpose() == v1::PURPOSE_UNSPECIFIED || row.purpose() == request.purpose()) &&
        (request.step() == 0 || row.step() == request.step());
    if (wanted) {
      reader.rows.push_back(std::move(row));
      reader.serials.push_back(serial);
    }
    if (++looked_at < kMostRowsLookedAt &&
        reader.rows.size() < static_cast<size_t>(reader.page.size())) {
      return true;
    }
    reader.answer.set_next_page_token(reader.page.TokenAfter(static_cast<int64_t>(serial)));
    return false;
  });
}

bool HasPrefix(const std::string& name, const v1::ListMetricsRequest& request) {
  const auto& prefixes = request.prefixes();
  return prefixes.empty() ||
         std::any_of(prefixes.begin(), prefixes.end(),
                     [&](const std::string& prefix) { return absl::StartsWith(name, prefix); });
}

absl::StatusOr<v1::ListMetricsResponse> ReadMetrics(store::Store& store, const std::string& job,
                                                    const v1::ListMetricsRequest& request,
                                                    const Page& page) {
  int64_t after = request.after_step();
  if (!page.first()) {
    BATON_ASSIGN_OR_RETURN(after, page.NumberAfter());
  }
  const bool from_first = page.first() && after <= 0;
  v1::ListMetricsResponse answer;
  size_t bytes = 0;
  const store::ScanOptions scan =
      NumberRange(job, from_first ? 0 : static_cast<uint64_t>(after) + 1);
  BATON_RETURN_IF_ERROR(ScanInPieces(store, kMetricTable, scan, [&](const store::Row& row) {
    v1::StepMetrics metrics;
    if (!metrics.ParseFromString(row.value)) return true;
    const int last = answer.steps_size() - 1;
    const bool evaluation = last >= 0 && answer.steps(last).step() == metrics.step();
    if (!evaluation && (answer.steps_size() == page.size() || bytes > kMaxPageBytes)) {
      answer.set_next_page_token(page.TokenAfter(answer.steps(last).step()));
      return false;
    }
    v1::StepMetrics* const step = evaluation ? answer.mutable_steps(last) : answer.add_steps();
    step->set_step(metrics.step());
    for (const auto& [name, value] : metrics.metrics()) {
      if (!HasPrefix(name, request)) continue;
      (*step->mutable_metrics())[name] = value;
      bytes += name.size() + 16;
    }
    return true;
  }));
  return answer;
}

// Adds jobs to a page, the newest first, until it is full.
class JobsPage {
 public:
  JobsPage(const v1::ListJobsRequest& request, const Page& page) : request_(request), page_(page) {}

  bool Wants(v1::Job::State state) const {
    const auto& states = request_.states();
    return states.empty() || std::find(states.begin(), states.end(), state) != states.end();
  }
  bool WantsEnded() const {
    const auto& states = request_.states();
    return states.empty() || std::any_of(states.begin(), states.end(), [](int state) {
             return IsTerminal(static_cast<v1::Job::State>(state));
           });
  }
  // False: the page is full.
  bool Add(int64_t order, v1::Job job) {
    const size_t size = job.ByteSizeLong();
    if (answer_.jobs_size() == page_.size() || bytes_ > kMaxPageBytes ||
        (answer_.jobs_size() > 0 && bytes_ + size > kMaxPageBytes)) {
      return End(last_);
    }
    bytes_ += size;
    last_ = order;
    *answer_.add_jobs() = std::move(job);
    return true;
  }
  // The next page begins behind the job of this order.
  bool End(int64_t order) {
    answer_.set_next_page_token(page_.TokenAfter(order));
    return false;
  }
  v1::ListJobsResponse Take() { return std::move(answer_); }

 private:
  const v1::ListJobsRequest& request_;
  const Page& page_;
  v1::ListJobsResponse answer_;
  size_t bytes_ = 0;
  int64_t last_ = 0;
};

// A job whose rows are damaged is listed all the same.
v1::Job EndedJob(const EndedJobs& jobs, const std::string& name) {
  auto job = jobs.Describe(name);
  if (job.ok()) return *std::move(job);
  v1::Job damaged;
  if (!absl::IsDataLoss(job.status())) return damaged;  // it was deleted meanwhile
  damaged.set_name(name);
  damaged.set_state(v1::Job::STATE_FAILED);
  *damaged.mutable_error() = ToProto(job.status());
  return damaged;
}

}  // namespace

bool Lists::Shows(const std::string& job) const {
  const auto live = scope_->jobs.Get(job).job;
  return live == nullptr ? scope_->ended->Exists(job) : live->visible();
}

// Jobs in memory, and rows of the others.
absl::StatusOr<v1::ListJobsResponse> Lists::ReadJobs(const v1::ListJobsRequest& request,
                                                     const Page& page, int64_t before) const {
  const std::string project = request.project().empty() ? "default" : request.project();
  const bool all = project == "-";
  std::vector<std::pair<int64_t, std::shared_ptr<JobRuntime>>> found;
  for (const auto& [job, order] : scope_->jobs.Below(all ? "" : FullJobName("", project))) {
    if (order < before && job->visible()) found.emplace_back(order, job);
  }
  std::sort(found.rbegin(), found.rend());
  JobsPage jobs(request, page);
  size_t next = 0;
  // Adds those in memory whose order is at least `order`. False: the page is full.
  const auto add_found = [&](int64_t order) {
    for (; next < found.size() && found[next].first >= order; ++next) {
      const auto& [at, job] = found[next];
      if (jobs.Wants(job->state()) && !jobs.Add(at, job->Snapshot())) return false;
    }
    return true;
  };
  bool full = false;
  size_t looked_at = 0;
  const auto add_row = [&](const store::Row& row) {
    const auto order = static_cast<int64_t>(KeyNumber(row.key));
    full = !add_found(order);
    const bool in_memory = next > 0 && found[next - 1].first == order;
    if (full || in_memory) return !full;
    if (++looked_at > kMostRowsLookedAt) {
      full = !jobs.End(order + 1);
      return false;
    }
    v1::Job job = EndedJob(*scope_->ended, JobOfOrder(row));
    full = !job.name().empty() && jobs.Wants(job.state()) && !jobs.Add(order, std::move(job));
    return !full;
  };
  if (jobs.WantsEnded()) {
    BATON_RETURN_IF_ERROR(ScanInPieces(*scope_->store, kOrderTable,
                                       OrderedJobs(all ? "*" : project, before), add_row));
  }
  if (!full) add_found(0);
  return jobs.Take();
}

void Lists::ListJobs(const v1::ListJobsRequest& request,
                     Callback<v1::ListJobsResponse> done) const {
  const auto page = Page::Read(request, 100, kMostItems);
  if (!page.ok()) return done(page.status());
  const auto before = NumberBefore(*page);
  if (!before.ok()) return done(before.status());
  scope_->executors.PostRead([this, request, page = *page, before = *before,
                              done = std::move(done)] { done(ReadJobs(request, page, before)); });
}

void Lists::ListMetrics(const v1::ListMetricsRequest& request,
                        Callback<v1::ListMetricsResponse> done) const {
  auto page = Page::Read(request, kMostItems, kMostSteps);
  if (!page.ok()) return done(page.status());
  scope_->executors.PostRead([this, request, page = *std::move(page), done = std::move(done)] {
    const std::string name = FullJobName(request.name());
    if (!Shows(name)) return done(NoSuchJob(request.name()));
    done(ReadMetrics(*scope_->store, name, request, page));
  });
}

void Lists::ListTrajectories(const v1::ListTrajectoriesRequest& request,
                             Callback<v1::ListTrajectoriesResponse> done) const {
  auto page = Page::Read(request, 20, kMostItems);
  if (!page.ok()) return done(page.status());
  auto reader = std::make_shared<PayloadReader>(*std::move(page));
  reader->with_columns = request.with_columns();
  reader->done = done;
  scope_->FindJob(
      request.name(), done, [this, reader, request](const std::shared_ptr<JobRuntime>& job) {
        reader->job = job;
        scope_->executors.PostRead([this, reader, request] {
          const absl::Status status = ChooseTrajectories(*scope_->store, request, *reader);
          if (!status.ok()) return reader->done(status);
          reader->Next(0);
        });
      });
}

void Lists::ListCheckpoints(const v1::ListCheckpointsRequest& request,
                            Callback<v1::ListCheckpointsResponse> done) const {
  auto page = Page::Read(request, kMostItems, kMostItems);
  if (!page.ok()) return done(page.status());
  const auto before = NumberBefore(*page);
  if (!before.ok()) return done(before.status());
  const auto answer = [page = *std::move(page), before = *before,
                       done](absl::StatusOr<std::vector<v1::Checkpoint>> all) {
    if (!all.ok()) return done(all.status());
    v1::ListCheckpointsResponse answer;
    for (auto it = all->rbegin(); it != all->rend(); ++it) {  // newest first
      if (it->step() >= before) continue;
      if (answer.checkpoints_size() == page.size()) {
        answer.set_next_page_token(
            page.TokenAfter(answer.checkpoints(answer.checkpoints_size() - 1).step()));
        break;
      }
      *answer.add_checkpoints() = std::move(*it);
    }
    done(std::move(answer));
  };
  scope_->FindJob(request.name(), done,
                  [answer](const std::shared_ptr<JobRuntime>& job) { job->Checkpoints(answer); });
}

void Lists::ListWorkers(const v1::ListWorkersRequest& request,
                        Callback<v1::ListWorkersResponse> done) const {
  auto page = Page::Read(request, kMostItems, kMostItems);
  if (!page.ok()) return done(page.status());
  scope_->cluster->Post([this, page = *std::move(page), done = std::move(done)] {
    v1::ListWorkersResponse answer;
    const auto size = static_cast<size_t>(page.size());
    for (v1::Worker& worker :
         scope_->cluster->core().workers().List(scope_->cluster->now(), page.after(), size + 1)) {
      if (answer.workers_size() == page.size()) {
        answer.set_next_page_token(
            page.TokenAfter(answer.workers(answer.workers_size() - 1).worker_id()));
        break;
      }
      *answer.add_workers() = std::move(worker);
    }
    done(std::move(answer));
  });
}

absl::StatusOr<v1::ListProjectsResponse> Lists::ListProjects(
    const v1::ListProjectsRequest& request) const {
  BATON_ASSIGN_OR_RETURN(const Page page, Page::Read(request, kMostItems, kMostItems));
  v1::ListProjectsResponse answer;
  const std::set<std::string> names = projects_->Names();
  for (auto it = names.upper_bound(page.after()); it != names.end(); ++it) {
    if (answer.projects_size() == page.size()) {
      answer.set_next_page_token(
          page.TokenAfter(answer.projects(answer.projects_size() - 1).project()));
      break;
    }
    v1::Project* project = answer.add_projects();
    *project = projects_->Named(*it);
    project->set_job_bytes(scope_->folder_bytes.OfProject(*it));
    project->set_upload_bytes(uploads_->UsedBytes(*it));
  }
  return answer;
}

}  // namespace baton::controller
