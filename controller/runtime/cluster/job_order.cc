#include "controller/runtime/cluster/job_order.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "baton/store/v1/rows.pb.h"
#include "controller/access/caller.h"
#include "controller/runtime/cluster/take_over.h"
#include "controller/runtime/rows/tables.h"
#include "sdk/common/base/status_macros.h"

namespace baton::controller {
namespace {

constexpr size_t kRowsInPiece = 200;
constexpr char kAllJobs[] = "*";  // no project has this name

std::vector<std::string> KeysOfOrder(const std::string& job, int64_t order) {
  const auto number = static_cast<uint64_t>(order);
  return {NumberKey(access::ProjectOf(job), number), NumberKey(kAllJobs, number)};
}

uint64_t HashOfPlace(const std::string& job, uint64_t order) { return absl::HashOf(job, order); }

}  // namespace

std::vector<store::Write> RowsOfOrder(const std::string& job, int64_t order,
                                      const std::string& request_key) {
  std::vector<store::Write> writes;
  for (std::string& key : KeysOfOrder(job, order)) {
    writes.push_back({kOrderTable, std::move(key), absl::StrCat(job, "\n", request_key)});
  }
  return writes;
}

std::vector<store::Write> DeletedOrder(const std::string& job, int64_t order) {
  std::vector<store::Write> writes;
  for (std::string& key : KeysOfOrder(job, order)) {
    writes.push_back({kOrderTable, std::move(key), std::nullopt});
  }
  return writes;
}

store::ScanOptions OrderedJobs(const std::string& project, int64_t before) {
  store::ScanOptions scan = NumberRange(project, 0, static_cast<uint64_t>(before));
  scan.reverse = true;
  return scan;
}

std::string JobOfOrder(const store::Row& row) { return row.value.substr(0, row.value.find('\n')); }

absl::StatusOr<std::string> RequestThatMade(store::Store& store, const std::string& job,
                                            int64_t order) {
  BATON_ASSIGN_OR_RETURN(const auto stored,
                         store.Get(kOrderTable, NumberKey(kAllJobs, static_cast<uint64_t>(order))));
  if (!stored.has_value() || stored->rfind(job + "\n", 0) != 0) return "";
  std::string key = stored->substr(job.size() + 1);
  if (key.empty()) return "";
  // The key may belong to a later call: a request that made no job is kept for only a day.
  BATON_ASSIGN_OR_RETURN(const auto request, store.Get(kRequestTable, key));
  store::v1::RequestRow row;
  const bool made = request.has_value() && row.ParseFromString(*request) && row.job() == job &&
                    (row.method().empty() || row.method() == kCreateReplay);
  return made ? key : "";
}

void OrderCheck::Add(const std::string& job, int64_t order) {
  ++count_;
  hashes_ += HashOfPlace(job, static_cast<uint64_t>(order));
}

absl::StatusOr<bool> OrderCheck::Agrees(store::Store& store) const {
  OrderCheck all, by_project;
  const auto look = [&](const store::Row& row) {
    const uint64_t order = KeyNumber(row.key);
    (row.key.rfind(kAllJobs, 0) == 0 ? all : by_project)
        .Add(JobOfOrder(row), static_cast<int64_t>(order));
    return true;
  };
  BATON_RETURN_IF_ERROR(ScanInPieces(store, kOrderTable, {}, look));
  return all.count_ == count_ && all.hashes_ == hashes_ && by_project.count_ == count_ &&
         by_project.hashes_ == hashes_;
}

absl::Status WriteOrder(store::Store& store) {
  std::vector<store::Write> writes;
  const auto commit = [&](size_t most) {
    if (writes.size() <= most) return absl::OkStatus();
    return CommitNow(store, std::exchange(writes, {}));
  };
  absl::Status failed;
  BATON_RETURN_IF_ERROR(ScanInPieces(store, kOrderTable, {}, [&](const store::Row& row) {
    writes.push_back({kOrderTable, row.key, std::nullopt});
    return (failed = commit(kRowsInPiece)).ok();
  }));
  BATON_RETURN_IF_ERROR(failed);
  BATON_RETURN_IF_ERROR(ScanInPieces(store, kJobTable, {}, [&](const store::Row& row) {
    store::v1::JobRow job;
    if (!access::ValidResource(row.key)) return true;
    const int64_t order = job.ParseFromString(row.value) ? job.submit_order() : 0;
    for (store::Write& write : RowsOfOrder(row.key, order, "")) writes.push_back(std::move(write));
    return (failed = commit(kRowsInPiece)).ok();
  }));
  BATON_RETURN_IF_ERROR(failed);
  BATON_RETURN_IF_ERROR(ScanInPieces(store, kRequestTable, {}, [&](const store::Row& row) {
    store::v1::RequestRow request;
    const bool whole = request.ParseFromString(row.value);
    // Requests that changed a job are kept for their day: a late repeat must not change the next
    // job of the same name.
    if (whole && !request.method().empty() && request.method() != kCreateReplay) return true;
    const auto stored = store.Get(kJobTable, request.job());
    if (!stored.ok()) failed = stored.status();
    if (!failed.ok()) return false;
    store::v1::JobRow job;
    if (!whole || !stored->has_value()) {
      writes.push_back({kRequestTable, row.key, std::nullopt});
    } else if (job.ParseFromString(**stored)) {
      for (store::Write& write : RowsOfOrder(request.job(), job.submit_order(), row.key)) {
        writes.push_back(std::move(write));
      }
    }
    return (failed = commit(kRowsInPiece)).ok();
  }));
  BATON_RETURN_IF_ERROR(failed);
  return commit(0);
}

absl::Status ScanInPieces(store::Store& store, const char* table, store::ScanOptions scan,
                          const std::function<bool(const store::Row&)>& take) {
  scan.limit = kRowsInPiece;
  while (true) {
    BATON_ASSIGN_OR_RETURN(const auto rows, store.Scan(table, scan));
    for (const store::Row& row : rows) {
      if (!take(row)) return absl::OkStatus();
    }
    if (rows.size() < scan.limit) return absl::OkStatus();
    if (scan.reverse) {
      scan.end = rows.back().key;
    } else {
      scan.begin = rows.back().key + std::string(1, '\0');  // the smallest key after it
    }
  }
}

}  // namespace baton::controller
