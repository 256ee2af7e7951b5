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
#include "controller/runtime/files/job_folders.h"
#include "controller/runtime/files/trash.h"
#include "controller/runtime/rows/tables.h"
#include "sdk/base/status_macros.h"
#include "sdk/rpc/error.h"

namespace baton::controller {
namespace {

constexpr size_t kDeletedInOneCommit = 1000;

// Whether it is known that the job cannot be restored (job_restorer.h).
absl::StatusOr<bool> IsSetAside(store::Store& store, const std::string& job) {
  BATON_ASSIGN_OR_RETURN(const auto stored, store.Get(kRestoreTable, job));
  store::v1::RestoreRow row;
  return stored.has_value() && row.ParseFromString(*stored) && !row.quarantine().empty();
}

}  // namespace

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
  BATON_ASSIGN_OR_RETURN(const bool set_aside, IsSetAside(store, job));
  if (whole && !IsTerminal(row.job().state()) && !set_aside) {
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
