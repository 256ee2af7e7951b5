#include "controller/runtime/rows/stored_history.h"

#include <algorithm>
#include <utility>

#include "baton/store/v1/rows.pb.h"
#include "controller/core/job/trajectory.h"
#include "controller/runtime/rows/tables.h"
#include "sdk/common/base/status_macros.h"

namespace baton::controller {
namespace {

constexpr size_t kHistoryPage = 1000;  // rows

}  // namespace

absl::StatusOr<bool> StoredHistory::ReadMore(store::Store& store) {
  store::ScanOptions scan = NumberRange(job_, 0, end_);
  scan.reverse = true;
  scan.limit = std::min(kHistoryPage, most_ - rows_.size());
  if (scan.limit == 0) return false;
  BATON_ASSIGN_OR_RETURN(const std::vector<store::Row> page, store.Scan(kTrajectoryTable, scan));
  for (const store::Row& stored : page) {
    end_ = KeyNumber(stored.key);
    store::v1::TrajectoryRow row;
    if (!row.ParseFromString(stored.value)) continue;
    const PastResponse response = {
        row.id(), end_, row.policy_version(), row.tokens(), {row.file(), row.offset(), row.size()}};
    rows_.emplace_back(PromptKey(row.purpose(), row.prompt_id()), response);
  }
  return page.size() == scan.limit && end_ > 0;  // an end of 0 would be no end
}

PromptHistory StoredHistory::Take() {
  PromptHistory history;
  for (; !rows_.empty(); rows_.pop_back()) history.Note(rows_.back().first, rows_.back().second);
  return history;
}

}  // namespace baton::controller
