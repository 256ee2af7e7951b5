#include "controller/runtime/controller/controller.h"

#include <chrono>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "boost/asio/post.hpp"
#include "controller/runtime/cluster/job_order.h"
#include "controller/runtime/cluster/take_over.h"
#include "controller/runtime/files/move_root.h"
#include "controller/runtime/job_files/job_folders.h"
#include "controller/runtime/submit/contents_check.h"
#include "controller/spec/job_spec/presets.h"
#include "sdk/common/base/log.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {
namespace {

// Prometheus gives each sample a label `job` of its own, the name of the scrape job, and would
// store a label of that name as `exported_job`.
constexpr char kJobLabel[] = "baton_job";

using Samples = std::vector<GaugeSample>;

void AddJob(const v1::Job& job, Samples* samples) {
  const std::map<std::string, std::string> labels = {{kJobLabel, job.name()}};
  samples->push_back({"baton_job_state", labels, static_cast<double>(job.state())});
  samples->push_back({"baton_job_step", labels, static_cast<double>(job.step())});
  samples->push_back(
      {"baton_job_policy_version", labels, static_cast<double>(job.policy_version())});
  for (const auto& [name, value] : job.metrics()) {
    samples->push_back({"baton_job_metric", {{kJobLabel, job.name()}, {"name", name}}, value});
  }
}

void AddWorkers(const std::vector<v1::Worker>& workers, Samples* samples) {
  std::map<std::string, int> states;
  for (const v1::Worker& worker : workers) {
    ++states[worker.state() == v1::Worker::STATE_READY      ? "ready"
             : worker.state() == v1::Worker::STATE_DRAINING ? "draining"
                                                            : "lost"];
  }
  for (const auto& [state, count] : states) {
    samples->push_back({"baton_workers", {{"state", state}}, static_cast<double>(count)});
  }
}

void AddPayloads(const PayloadBudget& payloads, Samples* samples) {
  const std::map<std::string, uint64_t> bytes_of = {{"cached", payloads.cached()},
                                                    {"unwritten", payloads.unwritten()},
                                                    {"batch", payloads.batches()},
                                                    {"budget", payloads.limit()}};
  for (const auto& [state, bytes] : bytes_of) {
    samples->push_back({"baton_payload_bytes", {{"state", state}}, static_cast<double>(bytes)});
  }
}

}  // namespace

Controller::Controller(ControllerOptions options)
    : scope_(std::move(options)),
      projects_(&scope_),
      requests_(&scope_),
      launcher_(&scope_, &requests_),
      waiting_(scope_.options.max_waiting_spec_bytes, scope_.options.max_waiting_bytes_of_all),
      uploads_(scope_.options.data_root,
               [this](const std::string& project) { return projects_.UploadLimitOf(project); }),
      spec_uploads_(&scope_, &uploads_),
      submissions_(&scope_, &projects_, &requests_, &launcher_, &waiting_, &uploads_,
                   &spec_uploads_),
      remover_(&scope_, &spec_uploads_),
      jobs_(&scope_, &projects_, &requests_, &remover_),
      lists_(&scope_, &projects_, &uploads_),
      replays_(&scope_, &projects_, &requests_, &launcher_, &waiting_),
      backups_(&scope_),
      timer_(scope_.cluster_thread.get_executor()) {}

// ---- Life -------------------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<Controller>> Controller::Create(ControllerOptions options) {
  std::unique_ptr<Controller> controller(new Controller(std::move(options)));
  BATON_RETURN_IF_ERROR(controller->uploads_.Open());
  BATON_RETURN_IF_ERROR(controller->Restore());
  return controller;
}

absl::Status Controller::Restore() {
  const std::string& data_root = scope_.options.data_root;
  trash_ = std::make_unique<TrashRemover>(data_root);
  RemoveUnfinishedBackups(data_root);
  RemoveCheckFolders(data_root);
  BATON_RETURN_IF_ERROR(MoveRoot(*scope_.store, data_root));
  BATON_RETURN_IF_ERROR(TakeOver(*scope_.store, &scope_.context));
  FillContext();
  scope_.cluster = std::make_unique<ClusterRuntime>(
      &scope_.context, scope_.options.cluster, NewAsioStrand(&scope_.gate, &scope_.cluster_thread),
      &scope_.jobs);
  scope_.context.workers = &scope_.cluster->directory();
  scope_.context.queue = scope_.cluster.get();
  BATON_RETURN_IF_ERROR(projects_.Read());
  BATON_RETURN_IF_ERROR(scope_.cluster->ReadDrains(*scope_.store));

  BATON_ASSIGN_OR_RETURN(scope_.marks, RestoreMarks::Open(data_root + "/restoring"));
  scope_.files = std::make_unique<DiskFiles>(
      data_root, scope_.marks.get(),
      [this](const std::string& job) { return projects_.DataLimitsOf(job); },
      scope_.options.max_data_memory_bytes, &scope_.folder_bytes);
  scope_.context.files = scope_.files.get();
  BATON_RETURN_IF_ERROR(RestoreJobs());
  scope_.cluster->Post([this] { Tick(); });
  return absl::OkStatus();
}

void Controller::FillContext() {
  const ControllerOptions& options = scope_.options;
  RuntimeContext& context = scope_.context;
  context.executors = &scope_.executors;
  context.clock = &scope_.clock;
  context.store = scope_.store.get();
  context.sync_payloads = options.survive_power_cut;
  context.core = options.core;
  context.payloads = std::make_shared<PayloadBudget>(options.payload_bytes);
  context.job_payload_bytes = options.job_payload_bytes;
  context.kept = {options.kept_events, options.kept_logs, options.kept_metrics};
  context.relay_key = options.relay_key;
  context.find_job = [this](const std::string& name, const RuntimeContext::FoundIt& found) {
    scope_.FindJob(
        name, [found](const absl::Status&) { found(std::nullopt); },
        [found](const std::shared_ptr<JobRuntime>& job) { found(job->AsFound()); });
  };
}

absl::Status Controller::RestoreJobs() {
  store::Store& store = *scope_.store;
  OrderCheck order;
  JobRestorer::Options how;
  how.quarantine = scope_.options.quarantine;
  how.unquarantine = scope_.options.unquarantine;
  how.died_in = scope_.marks->left();
  how.leave_ended = true;
  how.seen = [this, &order](const std::string& job, int64_t number) {
    order.Add(job, number);
    scope_.ended->Count(job, 1);
  };
  restorer_ = std::make_unique<JobRestorer>(&scope_.context, &store, std::move(how));
  scope_.ended = std::make_unique<EndedJobs>(&scope_.context, &scope_.jobs, restorer_.get());
  BATON_ASSIGN_OR_RETURN(const auto restored, restorer_->Restore(&scope_.jobs));
  BATON_ASSIGN_OR_RETURN(const bool ordered, order.Agrees(store));
  if (!ordered) BATON_RETURN_IF_ERROR(WriteOrder(store));
  BATON_RETURN_IF_ERROR(remover_.FinishRemovals());
  CleanJobFolders(scope_.options.data_root + "/jobs", [this](const std::string& job) {
    const size_t slash = job.find('/');
    return scope_.ended->Exists(FullJobName(job.substr(slash + 1), job.substr(0, slash)));
  });
  scope_.folder_bytes.Start();
  for (const auto& job : restored) {
    scope_.cluster->Expect(*job);
    job->Start({}, nullptr);
  }
  if (!restored.empty()) {
    Log(LogLevel::kInfo, "store read",
        {{"jobs", restored.size()}, {"epoch", scope_.context.epoch}});
  }
  return absl::OkStatus();
}

void Controller::Tick() {
  scope_.cluster->Tick();
  scope_.executors.PostRead([this] { scope_.ended->DropIdle(); });
  requests_.ForgetOld();
  spec_uploads_.RemoveUnnamedWhenDue(scope_.cluster->now());
  projects_.TouchActiveJobs();
  timer_.expires_after(absl::ToChronoMilliseconds(scope_.options.tick));
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) scope_.cluster->Post([this] { Tick(); });
  });
}

Controller::~Controller() {
  scope_.gate.Close();
  boost::asio::post(scope_.cluster_thread, [this] { timer_.cancel(); });
  if (scope_.cluster != nullptr) {
    for (auto& [worker, stream] : scope_.cluster->directory().TakeAll()) {
      stream->Close(MakeError(absl::StatusCode::kUnavailable, "CONTROLLER_STOPS",
                              "the controller stops; attach again"));
    }
  }
  scope_.cluster_thread.join();
  scope_.executors.Join();
  scope_.disk.join();
  submissions_.Stop();
  scope_.data_readers.Join();
  scope_.remover.join();
  backups_.Join();
  trash_.reset();
  scope_.store.reset();  // no thread commits any more; waits for accepted commits
  scope_.ended.reset();  // with the calls that wait for ended jobs: they may hold others
  for (const auto& [job, order] : scope_.jobs.TakeAll()) job->Abandon();
}

absl::Status Controller::Ready() const {
  if (const absl::Status health = scope_.store->health(); !health.ok()) return health;
  for (const auto& [job, order] : scope_.jobs.Below("")) {
    if (const absl::Status health = job->disk_health(); !health.ok()) return health;
  }
  return absl::OkStatus();
}

void Controller::Metrics(std::function<void(Samples)> done) {
  std::vector<v1::Job> jobs;
  for (const auto& [job, order] : scope_.jobs.Below("")) {
    if (job->visible()) jobs.push_back(job->Brief());
  }
  scope_.cluster->Post([this, jobs = std::move(jobs), done = std::move(done)] {
    Samples samples;
    for (const v1::Job& job : jobs) AddJob(job, &samples);
    AddWorkers(scope_.cluster->core().workers().List(scope_.cluster->now()), &samples);
    AddPayloads(*scope_.context.payloads, &samples);
    samples.push_back({"baton_controller_epoch", {}, static_cast<double>(scope_.context.epoch)});
    done(std::move(samples));
  });
}

v1::ListPresetsResponse Controller::ListPresets() const {
  v1::ListPresetsResponse answer;
  for (const Preset& preset : Presets()) {
    v1::Preset* out = answer.add_presets();
    out->set_name(preset.name);
    out->set_kind(preset.kind);
    out->set_summary(preset.summary);
    *out->mutable_spec() = ExampleSpec(preset.name);
  }
  return answer;
}

}  // namespace baton::controller
