#include "controller/runtime/controller/delete_job.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "baton/store/v1/rows.pb.h"
#include "controller/access/caller.h"
#include "controller/core/job/job_state.h"
#include "controller/runtime/cluster/ended_jobs.h"
#include "controller/runtime/cluster/job_order.h"
#include "controller/runtime/cluster/job_table.h"
#include "controller/runtime/cluster/take_over.h"
#include "controller/runtime/files/trash.h"
#include "controller/runtime/job_files/job_folders.h"
#include "controller/runtime/rows/tables.h"
#include "sdk/common/base/log.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {
namespace {

// Few, so that other commits do not wait long.
constexpr size_t kDeletedInOneCommit = 1000;

// True if the job is known to be one that cannot be restored (job_restorer.h).
absl::StatusOr<bool> IsQuarantined(store::Store& store, const std::string& job) {
  BATON_ASSIGN_OR_RETURN(const auto stored, store.Get(kRestoreTable, job));
  store::v1::RestoreRow row;
  return stored.has_value() && row.ParseFromString(*stored) && !row.quarantine().empty();
}

// Deletions of at most `limit` rows below a job's name; empty: no such rows are left. Blocks.
absl::StatusOr<std::vector<store::Write>> DeletionsBelow(store::Store& store,
                                                         const std::string& job, size_t limit) {
  std::vector<store::Write> writes;
  for (const char* table :
       {kEventTable, kMetricTable, kCheckpointTable, kTrajectoryTable, kBatchTable, kLogTable}) {
    if (writes.size() == limit) break;
    store::ScanOptions scan = NumberRange(job, 0);
    scan.limit = limit - writes.size();
    BATON_ASSIGN_OR_RETURN(auto rows, store.Scan(table, scan));
    for (const store::Row& row : rows) writes.push_back({table, row.key, std::nullopt});
  }
  return writes;
}

// Deletions of the job's own rows, which come last: until they are committed, the job exists and
// its deletion can be repeated. They leave a row by which a start finds the job's folder. Blocks.
std::vector<store::Write> LastDeletions(store::Store& store, const std::string& job,
                                        const std::string& uid, int64_t order) {
  store::v1::RemovalRow removal;
  removal.set_uid(uid);
  std::vector<store::Write> last = DeletedOrder(job, order);
  last.push_back({kJobTable, job, std::nullopt});
  last.push_back({kSpecTable, job, std::nullopt});
  last.push_back({kRestoreTable, job, std::nullopt});
  last.push_back({kRemovalTable, job, removal.SerializeAsString()});
  if (const auto key = RequestThatMade(store, job, order); key.ok() && !key->empty()) {
    last.push_back({kRequestTable, *key, std::nullopt});
  }
  return last;
}

}  // namespace

// The name becomes free when nothing of the job is left, because a new job with this name must not
// find the old job's rows or files, or lose its own to their removal. The job's own row is deleted
// last. So if the controller dies before, it still has the job, and the deletion can be repeated.
// If it dies after, the next start removes the rest of the folder (FinishRemovals).
void JobRemover::Remove(const std::shared_ptr<JobRuntime>& job, const JobRuntime::ExtraRow& extra,
                        const Callback<v1::Job>& done) {
  scope_->executors.PostRead([this, job, extra, done] { RemoveRows(job, extra, done); });
}

void JobRemover::RemoveRows(const std::shared_ptr<JobRuntime>& job,
                            const JobRuntime::ExtraRow& extra, const Callback<v1::Job>& done) {
  auto rows = DeletionsBelow(*scope_->store, job->name(), kDeletedInOneCommit);
  if (!rows.ok()) {
    job->Unretire();
    return done(rows.status());
  }
  if (!rows->empty()) {
    scope_->store->Commit(*std::move(rows), [this, job, extra, done](absl::Status status) {
      if (!status.ok()) {
        job->Unretire();
        return done(status);
      }
      Remove(job, extra, done);
    });
    return;
  }
  scope_->OnAdmission([this, job, extra, done] { RemoveLast(job, extra, done); });
}

void JobRemover::RemoveLast(const std::shared_ptr<JobRuntime>& job,
                            const JobRuntime::ExtraRow& extra, const Callback<v1::Job>& done) {
  const int64_t order = scope_->jobs.Get(job->name()).order;
  std::vector<store::Write> last = LastDeletions(*scope_->store, job->name(), job->uid(), order);
  if (const absl::Status marked = MarkDeleted(scope_->FolderOf(job->name()), job->uid());
      !marked.ok()) {
    Log(LogLevel::kWarn, "if the controller dies now, the folder of a deleted job stays",
        {{"job", job->name()}, {"error", marked.message()}});
  }
  if (extra) last.push_back(extra(v1::Job()));
  scope_->store->Commit(std::move(last), [this, job, done](absl::Status status) {
    if (!status.ok()) {
      job->Unretire();
      return done(status);
    }
    RemoveFolder(job, done);
  });
}

void JobRemover::RemoveFolder(const std::shared_ptr<JobRuntime>& job,
                              const Callback<v1::Job>& done) {
  job->RemoveFiles([this, job, done](const absl::Status& removed) {
    if (removed.ok()) {
      scope_->store->Commit({{kRemovalTable, job->name(), std::nullopt}},
                            store::Durability::kProcess, [](const absl::Status&) {});
    } else {
      Log(LogLevel::kWarn, "the folder of a deleted job stays until the next start",
          {{"job", job->name()}, {"error", removed.message()}});
    }
    scope_->jobs.Erase(job->name());
    scope_->ended->Count(job->name(), -1);
    uploads_->NoteDeletion();
    done(v1::Job());
  });
}

// Jobs whose deletion was committed, but a crash came before the removal of their folders. A folder
// without the job's mark was put there later, and stays.
absl::Status JobRemover::FinishRemovals() {
  BATON_ASSIGN_OR_RETURN(const auto rows, scope_->store->Scan(kRemovalTable, {}));
  std::vector<store::Write> over;
  for (const store::Row& stored : rows) {
    store::v1::RemovalRow removal;
    if (access::ValidResource(stored.key) && !scope_->ended->Exists(stored.key) &&
        removal.ParseFromString(stored.value)) {
      const std::string folder = scope_->FolderOf(stored.key);
      if (IsMarkedDeleted(folder, removal.uid())) {
        const absl::Status removed = RemoveJobFolder(scope_->options.data_root, folder);
        Log(removed.ok() ? LogLevel::kInfo : LogLevel::kWarn,
            removed.ok() ? "removed the folder of a deleted job"
                         : "the folder of a deleted job stays until the next start",
            {{"job", stored.key}, {"folder", folder}, {"error", removed.message()}});
        if (!removed.ok()) continue;
      }
    }
    over.push_back({kRemovalTable, stored.key, std::nullopt});
  }
  return over.empty() ? absl::OkStatus() : CommitNow(*scope_->store, std::move(over));
}

absl::Status DeleteStoredJob(store::Store& store, const std::string& data_root,
                             const std::string& name) {
  const std::string job = FullJobName(name);
  BATON_ASSIGN_OR_RETURN(const auto stored, store.Get(kJobTable, job));
  if (!stored.has_value() || !access::ValidResource(job)) {
    return MakeError(absl::StatusCode::kNotFound, "JOB_NOT_FOUND",
                     absl::StrCat("the store of ", data_root, " has no job '", name, "'"),
                     {{"job", job}});
  }
  store::v1::JobRow row;
  const bool whole = row.ParseFromString(*stored);
  BATON_ASSIGN_OR_RETURN(const bool quarantined, IsQuarantined(store, job));
  if (whole && !IsTerminal(row.job().state()) && !quarantined) {
    return MakeError(absl::StatusCode::kFailedPrecondition, "JOB_ACTIVE",
                     absl::StrCat("job '", name, "' is ", StateName(row.job().state()),
                                  "; start the controller and cancel it first. If the controller "
                                  "does not start with it, `--quarantine ",
                                  job, "` sets it aside; then it can be deleted"));
  }
  while (true) {
    BATON_ASSIGN_OR_RETURN(auto below, DeletionsBelow(store, job, kDeletedInOneCommit));
    if (below.empty()) break;
    BATON_RETURN_IF_ERROR(CommitNow(store, std::move(below)));
  }
  const std::string folder = JobFolderOf(data_root, job);
  const std::string& uid = row.job().uid();
  BATON_RETURN_IF_ERROR(MarkDeleted(folder, uid));
  BATON_RETURN_IF_ERROR(CommitNow(store, LastDeletions(store, job, uid, row.submit_order())));
  BATON_RETURN_IF_ERROR(RemoveJobFolder(data_root, folder));
  BATON_RETURN_IF_ERROR(CommitNow(store, {{kRemovalTable, job, std::nullopt}}));
  EmptyTrash(data_root);
  return absl::OkStatus();
}

}  // namespace baton::controller
