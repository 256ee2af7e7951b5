#include "controller/runtime/controller/controller.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "boost/asio/post.hpp"
#include "controller/access/caller.h"
#include "controller/runtime/cluster/job_order.h"
#include "controller/runtime/cluster/take_over.h"
#include "controller/runtime/controller/backup.h"
#include "controller/runtime/files/move_root.h"
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
      folder_bytes_(options_.data_root + "/jobs"),
      disk_(static_cast<size_t>(options_.disk_threads)),
      executors_({options_.strand_threads, options_.reader_threads, options_.data_threads,
                  options_.large_data_bytes, access::ProjectOf},
                 &gate_, &disk_),
      data_readers_(&gate_, options_.data_threads, options_.large_data_bytes),
      verdicts_(options_.data_root, &data_readers_, &gate_),
      contents_({options_.data_root, options_.max_data_bytes, options_.max_data_memory_bytes,
                 CheckersOf(options_)},
                &uploads_, &data_readers_),
      waiting_(options_.max_waiting_spec_bytes, options_.max_waiting_bytes_of_all),
      admission_(boost::asio::make_strand(disk_.get_executor())),
      timer_(cluster_thread_.get_executor()) {
  LowerPoolPriority(options_.disk_threads,
                    [this](auto work) { boost::asio::post(disk_, std::move(work)); });
  LowerPoolPriority(1, [this](auto work) { boost::asio::post(remover_, std::move(work)); });
  LowerPoolPriority(1, [this](auto work) { boost::asio::post(backups_, std::move(work)); });
}

absl::StatusOr<std::unique_ptr<Controller>> Controller::Create(ControllerOptions options) {
  std::unique_ptr<Controller> controller(new Controller(std::move(options)));
  BATON_RETURN_IF_ERROR(controller->uploads_.Open());
  BATON_RETURN_IF_ERROR(controller->Restore());
  return controller;
}

void Controller::Backup(Callback<std::shared_ptr<BackupFiles>> done) {
  if (backup_held_->exchange(true)) {
    return done(MakeError(absl::StatusCode::kFailedPrecondition, "BACKUP_RUNNING",
                          "another backup is being sent; try again when it has ended"));
  }
  gate_.Post(backups_.get_executor(), [this, done = std::move(done)] {
    auto set = BackupSet::Make(options_.data_root, *store_);
    if (!set.ok()) {
      *backup_held_ = false;
      return done(set.status());
    }
    const auto release = [held = backup_held_](BackupFiles* files) {
      delete files;
      *held = false;
    };
    done(std::shared_ptr<BackupFiles>(set->release(), release));
  });
}

absl::Status Controller::Restore() {
  trash_ = std::make_unique<TrashRemover>(options_.data_root);
  RemoveUnfinishedBackups(options_.data_root);
  RemoveCheckFolders(options_.data_root);
  BATON_RETURN_IF_ERROR(MoveRoot(*store_, options_.data_root));
  BATON_RETURN_IF_ERROR(TakeOver(*store_, &context_));
  context_.executors = &executors_;
  context_.clock = &clock_;
  context_.store = store_.get();
  context_.sync_payloads = options_.survive_power_cut;
  context_.core = options_.core;
  context_.payloads = std::make_shared<PayloadBudget>(options_.payload_bytes);
  context_.job_payload_bytes = options_.job_payload_bytes;
  context_.kept = {options_.kept_events, options_.kept_logs, options_.kept_metrics};
  context_.relay_key = options_.relay_key;
  context_.find_job = [this](const std::string& name, RuntimeContext::FoundIt found) {
    WithJob(
        name, [found](const absl::Status&) { found(std::nullopt); },
        [found](const std::shared_ptr<JobRuntime>& job) { found(job->AsFound()); });
  };
  cluster_ = std::make_unique<ClusterRuntime>(&context_, options_.cluster,
                                              NewAsioStrand(&gate_, &cluster_thread_), &jobs_);
  context_.workers = &cluster_->directory();
  context_.queue = cluster_.get();
  BATON_RETURN_IF_ERROR(ReadProjects());
  BATON_RETURN_IF_ERROR(cluster_->ReadDrains(*store_));

  BATON_ASSIGN_OR_RETURN(marks_, RestoreMarks::Open(options_.data_root + "/restoring"));
  files_ = std::make_unique<DiskFiles>(
      options_.data_root, marks_.get(),
      [this](const std::string& job) { return DataLimitsOf(job); }, options_.max_data_memory_bytes,
      &folder_bytes_);
  context_.files = files_.get();
  OrderCheck order;
  JobRestorer::Options how;
  how.quarantine = options_.quarantine;
  how.unquarantine = options_.unquarantine;
  how.died_in = marks_->left();
  how.leave_ended = true;
  how.seen = [this, &order](const std::string& job, int64_t number) {
    order.Add(job, number);
    ended_->Count(job, 1);
  };
  restorer_ = std::make_unique<JobRestorer>(&context_, store_.get(), std::move(how));
  ended_ = std::make_unique<EndedJobs>(&context_, &jobs_, restorer_.get());
  BATON_ASSIGN_OR_RETURN(const auto restored, restorer_->Restore(&jobs_));
  BATON_ASSIGN_OR_RETURN(const bool ordered, order.Agrees(*store_));
  if (!ordered) BATON_RETURN_IF_ERROR(WriteOrder(*store_));
  BATON_RETURN_IF_ERROR(FinishRemovals());
  CleanJobFolders(options_.data_root + "/jobs", [this](const std::string& job) {
    const size_t slash = job.find('/');
    return ended_->Exists(FullJobName(job.substr(slash + 1), job.substr(0, slash)));
  });
  folder_bytes_.Start();
  for (const auto& job : restored) {
    cluster_->Expect(*job);
    job->Start({}, nullptr);
  }
  if (!restored.empty()) {
    Log(LogLevel::kInfo, "store read", {{"jobs", restored.size()}, {"epoch", context_.epoch}});
  }
  cluster_->Post([this] { Tick(); });
  return absl::OkStatus();
}

void Controller::Tick() {
  cluster_->Tick();
  executors_.PostRead([this] { ended_->DropIdle(); });
  ForgetOldRequests();
  RemoveUnnamedUploadsWhenDue(cluster_->now());
  TouchActiveJobs();
  timer_.expires_after(absl::ToChronoMilliseconds(options_.tick));
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) cluster_->Post([this] { Tick(); });
  });
}

Controller::~Controller() {
  gate_.Close();
  boost::asio::post(cluster_thread_, [this] { timer_.cancel(); });
  if (cluster_ != nullptr) {
    for (auto& [worker, stream] : cluster_->directory().TakeAll()) {
      stream->Close(MakeError(absl::StatusCode::kUnavailable, "CONTROLLER_STOPS",
                              "the controller stops; attach again"));
    }
  }
  cluster_thread_.join();
  executors_.Join();
  disk_.join();
  contents_.Stop();
  data_readers_.Join();
  remover_.join();
  backups_.join();
  trash_.reset();
  store_.reset();  // no thread commits any more; waits for accepted commits
  ended_.reset();  // with the calls that wait for ended jobs: they may hold others
  for (const auto& [job, order] : jobs_.TakeAll()) job->Abandon();
}

absl::Status Controller::Ready() const {
  if (const absl::Status health = store_->health(); !health.ok()) return health;
  for (const auto& [job, order] : jobs_.Below("")) {
    if (const absl::Status health = job->disk_health(); !health.ok()) return health;
  }
  return absl::OkStatus();
}

}  // namespace baton::controller
