#include "controller/runtime/controller.h"

#include <future>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "boost/asio/post.hpp"
#include "controller/access/caller.h"
#include "controller/runtime/backup.h"
#include "controller/runtime/move_root.h"
#include "controller/runtime/session_state.h"
#include "controller/runtime/tables.h"
#include "sdk/base/digest.h"
#include "sdk/base/log.h"
#include "sdk/base/low_priority.h"
#include "sdk/base/status_macros.h"
#include "sdk/rpc/error.h"

namespace baton::controller {

static CheckerPool::Options CheckersOf(const ControllerOptions& options) {
  CheckerPool::Options out;
  out.program = options.checker;
  out.processes = options.check_processes;
  out.limit = options.check_limit;
  return out;
}

Controller::Controller(ControllerOptions options)
    : options_(std::move(options)),
      paths_(options_.data_root, options_.confine_paths, options_.allowed_paths),
      store_(std::move(options_.store)),
      uploads_(options_.data_root, [this](const std::string& p) { return UploadLimitOf(p); }),
      leases_(&clock_, options_.cluster.lease),
      disk_(static_cast<size_t>(options_.disk_threads)),
      executors_({options_.strand_threads, options_.reader_threads, options_.data_threads,
                  options_.large_data_bytes, access::ProjectOf},
                 &gate_, &disk_),
      data_readers_(&gate_, options_.data_threads, options_.large_data_bytes),
      contents_({options_.data_root, options_.max_data_bytes, CheckersOf(options_)}, &uploads_,
                &data_readers_),
      waiting_(options_.max_waiting_spec_bytes),
      cluster_strand_(boost::asio::make_strand(cluster_thread_.get_executor())),
      admission_(boost::asio::make_strand(disk_.get_executor())),
      timer_(cluster_thread_.get_executor()) {
  LowerPoolPriority(options_.disk_threads,
                    [this](auto work) { boost::asio::post(disk_, std::move(work)); });
  LowerPoolPriority(1, [this](auto work) { boost::asio::post(remover_, std::move(work)); });
}

absl::StatusOr<std::unique_ptr<Controller>> Controller::Create(ControllerOptions options) {
  std::unique_ptr<Controller> controller(new Controller(std::move(options)));
  BATON_RETURN_IF_ERROR(controller->uploads_.Open());
  BATON_RETURN_IF_ERROR(controller->Restore());
  return controller;
}

absl::Status Controller::CommitNow(std::vector<store::Write> writes) {
  std::promise<absl::Status> promise;
  store_->Commit(std::move(writes), [&](absl::Status status) { promise.set_value(status); });
  return promise.get_future().get();
}

void Controller::Backup(Callback<std::shared_ptr<BackupFiles>> done) {
  if (backup_held_->exchange(true)) {
    return done(MakeError(absl::StatusCode::kFailedPrecondition, "BACKUP_RUNNING",
                          "another backup is being sent; try again when it has ended"));
  }
  OnDisk<std::shared_ptr<BackupFiles>>(
      std::move(done), [this]() -> absl::StatusOr<std::shared_ptr<BackupFiles>> {
        auto set = BackupSet::Make(options_.data_root, *store_);
        if (!set.ok()) {
          *backup_held_ = false;
          return set.status();
        }
        return std::shared_ptr<BackupFiles>(set->release(), [held = backup_held_](BackupFiles* s) {
          delete s;
          *held = false;
        });
      });
}

absl::Status Controller::Restore() {
  RemoveUnfinishedBackups(options_.data_root);
  RemoveCheckFolders(options_.data_root);
  BATON_RETURN_IF_ERROR(MoveRoot(*store_, options_.data_root));
  BATON_ASSIGN_OR_RETURN(auto epoch, store_->Get(kMetaTable, "epoch"));
  BATON_ASSIGN_OR_RETURN(auto secret, store_->Get(kMetaTable, "secret"));
  context_.executors = &executors_;
  context_.clock = &clock_;
  context_.store = store_.get();
  context_.workers = &directory_;
  context_.queue = this;
  context_.sync_payloads = options_.survive_power_cut;
  context_.core = options_.core;
  context_.payloads = std::make_shared<PayloadBudget>(options_.payload_bytes);
  context_.job_payload_bytes = options_.job_payload_bytes;
  context_.kept = {options_.kept_events, options_.kept_logs, options_.kept_metrics};
  context_.relay_key = options_.relay_key;
  if (epoch.has_value() && !absl::SimpleAtoi(*epoch, &context_.epoch)) {
    return absl::DataLossError(absl::StrCat("the store's epoch '", *epoch, "' is not a number"));
  }
  ++context_.epoch;
  BATON_ASSIGN_OR_RETURN(const std::string fresh, RandomHex(32));
  context_.secret = secret.has_value() ? *secret : fresh;
  BATON_RETURN_IF_ERROR(CommitNow({{kMetaTable, "epoch", absl::StrCat(context_.epoch)},
                                   {kMetaTable, "secret", context_.secret}}));
  cluster_ = std::make_unique<ClusterCore>(context_.epoch, options_.cluster);
  BATON_RETURN_IF_ERROR(ReadProjects());
  BATON_RETURN_IF_ERROR(ReadDrains());

  BATON_ASSIGN_OR_RETURN(marks_, RestoreMarks::Open(options_.data_root + "/restoring"));
  files_ =
      std::make_unique<DiskFiles>(options_.data_root, marks_.get(),
                                  [this](const std::string& job) { return DataLimitsOf(job); });
  context_.files = files_.get();
  BATON_ASSIGN_OR_RETURN(const auto restored, RestoreJobs());
  BATON_RETURN_IF_ERROR(FinishRemovals());
  CleanJobFolders(options_.data_root + "/jobs", [this](const std::string& job) {
    const size_t slash = job.find('/');
    absl::MutexLock lock(&mu_);
    return jobs_.count(FullJobName(job.substr(slash + 1), job.substr(0, slash))) > 0;
  });
  BATON_RETURN_IF_ERROR(ReadRequests());
  for (const auto& job : restored) {
    for (const auto& [worker, roles] : job->HeldWorkers()) {
      if (IsActive(job->state())) {
        cluster_->Expect(job->name(), worker, roles, clock_.Now());
      }
    }
    job->Start({}, nullptr);
  }
  if (!restored.empty()) {
    Log(LogLevel::kInfo, "store read", {{"jobs", restored.size()}, {"epoch", context_.epoch}});
  }
  OnCluster([this] { Tick(); });
  return absl::OkStatus();
}

Controller::~Controller() {
  gate_.Close();
  boost::asio::post(cluster_strand_, [this] { timer_.cancel(); });
  for (auto& [worker, stream] : directory_.TakeAll()) {
    stream->Close(MakeError(absl::StatusCode::kUnavailable, "CONTROLLER_STOPS",
                            "the controller stops; attach again"));
  }
  cluster_thread_.join();
  executors_.Join();
  disk_.join();
  contents_.Stop();
  data_readers_.Join();
  remover_.join();
  store_.reset();  // no thread commits any more; waits for accepted commits
  absl::MutexLock lock(&mu_);
  for (auto& [name, job] : jobs_) job->Abandon();
  jobs_.clear();
}

absl::Status Controller::Ready() const {
  if (const absl::Status health = store_->health(); !health.ok()) return health;
  absl::MutexLock lock(&mu_);
  for (const auto& [name, job] : jobs_) {
    if (const absl::Status health = job->disk_health(); !health.ok()) return health;
  }
  return absl::OkStatus();
}

}  // namespace baton::controller
