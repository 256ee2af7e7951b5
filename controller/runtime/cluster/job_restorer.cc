#include "controller/runtime/cluster/job_restorer.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/access/caller.h"
#include "controller/runtime/cluster/job_order.h"
#include "controller/runtime/cluster/take_over.h"
#include "controller/runtime/job/quarantined_core.h"
#include "controller/runtime/rows/checkpoint_rows.h"
#include "controller/runtime/rows/stored_job.h"
#include "controller/runtime/rows/tables.h"
#include "sdk/common/base/log.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {
namespace {

// Deaths of the controller during the work for a job, without a step of the job in between.
constexpr uint32_t kMaxAttempts = 2;

// The steps that the job has done; 0: its row cannot be read.
int64_t StoredStepOf(store::Store& store, const std::string& job) {
  const auto stored = store.Get(kJobTable, job);
  store::v1::JobRow row;
  if (!stored.ok() || !stored->has_value() || !row.ParseFromString(**stored)) return 0;
  return row.job().step();
}

}  // namespace

JobRestorer::JobRestorer(const RuntimeContext* context, store::Store* store, Options options)
    : context_(context), store_(*store), options_(std::move(options)) {}

// Finds the jobs during whose work the last controller died, and those that the user names. Commits
// this before it reads any job, so that it is known even after another crash.
absl::Status JobRestorer::ReadRestores() {
  BATON_ASSIGN_OR_RETURN(const auto rows, store_.Scan(kRestoreTable, {}));
  for (const store::Row& row : rows) {
    if (!restores_[row.key].ParseFromString(row.value)) restores_.erase(row.key);
  }
  for (const std::string& job : options_.died_in) {
    store::v1::RestoreRow& deaths = restores_[job];
    const int64_t step = StoredStepOf(store_, job);
    if (step > deaths.step()) deaths.set_attempts(0);
    deaths.set_attempts(deaths.attempts() + 1);
    deaths.set_step(step);
  }
  const auto by_hand = [&](const char* flag, const std::string& given) -> absl::Status {
    const std::string name = FullJobName(given);
    BATON_ASSIGN_OR_RETURN(const auto job, store_.Get(kJobTable, name));
    if (job.has_value()) return absl::OkStatus();
    return absl::NotFoundError(absl::StrCat(flag, " ", given, ": there is no such job"));
  };
  std::vector<store::Write> writes;
  for (const std::string& job : options_.unquarantine) {
    BATON_RETURN_IF_ERROR(by_hand("--unquarantine", job));
    restores_.erase(FullJobName(job));
    writes.push_back({kRestoreTable, FullJobName(job), std::nullopt});
  }
  for (const std::string& job : options_.quarantine) {
    BATON_RETURN_IF_ERROR(by_hand("--quarantine", job));
    restores_[FullJobName(job)].set_quarantine("it was quarantined by hand (--quarantine)");
  }
  for (auto& [job, restore] : restores_) {
    if (restore.quarantine().empty() && restore.attempts() >= kMaxAttempts) {
      restore.set_quarantine(
          absl::StrCat("the controller died ", restore.attempts(),
                       " times under the work for this job, without a step of the job "
                       "in between"));
    }
    writes.push_back({kRestoreTable, job, restore.SerializeAsString()});
  }
  return writes.empty() ? absl::OkStatus() : CommitNow(store_, std::move(writes));
}

// DATA_LOSS: the rows cannot be those of a job. Other errors are the store's.
absl::StatusOr<std::shared_ptr<JobRuntime>> JobRestorer::RestoreJob(const store::Row& stored) {
  BATON_ASSIGN_OR_RETURN(const StoredJob read, ReadStoredJob(store_, stored));
  auto job = std::make_shared<JobRuntime>(
      context_, JobCore(read.row, read.trajectories, context_->epoch, context_->core),
      read.next_log_sequence, /*stored=*/true);
  const auto deaths = restores_.find(stored.key);
  if (deaths != restores_.end()) job->ForgetDeathsAfter(deaths->second.step());
  return job;
}

// The visible part of a job whose rows and files stay as they are.
std::shared_ptr<JobRuntime> JobRestorer::Quarantine(const store::Row& stored,
                                                    const std::string& reason) {
  Log(LogLevel::kError, "a job is quarantined; the others go on",
      {{"job", stored.key}, {"reason", reason}});
  store::v1::JobRow known;
  if (!known.ParseFromString(stored.value)) known.Clear();
  ReadSpec(store_, stored.key, known.mutable_job()).IgnoreError();
  ReadCheckpoints(store_, stored.key, &known).IgnoreError();
  const auto shown = TakeSubmitted(known.mutable_job());
  return std::make_shared<JobRuntime>(
      context_, QuarantinedCore(stored.key, known, QuarantineError(stored.key, reason), *context_),
      1,
      /*stored=*/true, shown);
}

absl::StatusOr<JobRestorer::Loaded> JobRestorer::RestoreOrQuarantine(const store::Row& stored,
                                                                     bool leave_ended) {
  const auto restore = restores_.find(stored.key);
  std::string why = restore == restores_.end() ? "" : restore->second.quarantine();
  Loaded loaded;
  store::v1::JobRow row;
  const bool whole = row.ParseFromString(stored.value);
  loaded.order = whole ? row.submit_order() : 0;
  // A job whose files are not all removed goes on with that, and leaves memory afterwards.
  const bool rests = whole && IsTerminal(row.job().state()) && !row.drops_optimizer();
  if (why.empty() && leave_ended && rests) return loaded;
  absl::StatusOr<std::shared_ptr<JobRuntime>> job = absl::DataLossError(why);
  if (why.empty()) {
    const auto mark = context_->files->FilesOf(stored.key)->MarkWork();
    try {
      job = RestoreJob(stored);
    } catch (const std::exception& thrown) {  // from a library
      job = absl::DataLossError(
          absl::StrCat("the row of job ", stored.key, " cannot be restored: ", thrown.what()));
    }
    if (!job.ok() && !absl::IsDataLoss(job.status())) return job.status();
    why = std::string(job.status().message());
  }
  loaded.job = job.ok() ? *std::move(job) : Quarantine(stored, why);
  return loaded;
}

absl::StatusOr<JobRestorer::Loaded> JobRestorer::Load(const std::string& name) {
  BATON_ASSIGN_OR_RETURN(auto value, store_.Get(kJobTable, name));
  if (!value.has_value() || !access::ValidResource(name)) {
    return absl::NotFoundError(absl::StrCat("there is no job '", name, "'"));
  }
  return RestoreOrQuarantine({name, *std::move(value)}, /*leave_ended=*/false);
}

absl::StatusOr<std::vector<std::shared_ptr<JobRuntime>>> JobRestorer::Restore(JobTable* jobs) {
  BATON_RETURN_IF_ERROR(ReadRestores());
  std::vector<std::shared_ptr<JobRuntime>> restored;
  absl::Status failed;
  const auto restore = [&](const store::Row& stored) {
    if (!access::ValidResource(stored.key)) {
      Log(LogLevel::kError, "a row of no job is left alone", {{"key", stored.key}});
      return true;
    }
    auto loaded = RestoreOrQuarantine(stored, options_.leave_ended);
    if (!loaded.ok()) {
      failed = loaded.status();
      return false;
    }
    if (options_.seen) options_.seen(stored.key, loaded->order);
    if (loaded->job == nullptr) {
      jobs->KeepOrder(loaded->order);
      return true;
    }
    jobs->Add(loaded->job, loaded->order);
    restored.push_back(std::move(loaded->job));
    return true;
  };
  BATON_RETURN_IF_ERROR(ScanInPieces(store_, kJobTable, {}, restore));
  if (!failed.ok()) return failed;
  return restored;
}

}  // namespace baton::controller
