#include "controller/runtime/payloads/recorded_batch.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/runtime/rows/tables.h"
#include "sdk/common/base/status_macros.h"

namespace baton::controller {
namespace {

using Hashes = std::vector<uint64_t>;

std::string HexOf(uint64_t hash) { return absl::StrCat(absl::Hex(hash, absl::kZeroPad16)); }

absl::Status Differs(const BuildBatch& ask, uint64_t response, absl::string_view how) {
  return absl::DataLossError(
      absl::StrCat("the batch of step ", ask.step,
                   " is not the one that was recorded: ", TrajectoryName(response), " ", how,
                   "; the experience log or the store of this job was changed or is damaged"));
}

// The names of a response's columns, in the order of its hashes.
std::vector<std::string> NamesOf(const BuiltBatch& built, uint64_t response) {
  std::vector<std::string> names;
  for (const BatchEntry& entry : built.entries) {
    if (entry.logged.id != response) continue;
    if (entry.columns != nullptr) names = *entry.columns;
    const auto own = static_cast<std::ptrdiff_t>(names.size());
    const v1::Trajectory added = entry.Added();
    for (const v1::Column& column : added.columns()) names.push_back(column.name());
    std::sort(names.begin() + own, names.end());
  }
  return names;
}

// The hashes of `a` that `b` lacks.
Hashes Without(const Hashes& a, Hashes b) {
  Hashes out;
  for (const uint64_t hash : a) {
    const auto found = std::find(b.begin(), b.end(), hash);
    if (found == b.end()) {
      out.push_back(hash);
    } else {
      b.erase(found);
    }
  }
  return out;
}

absl::Status CompareColumns(const BuildBatch& ask, const BuiltBatch& built, uint64_t response,
                            const Hashes& recorded, const Hashes& now) {
  const Hashes lost = Without(recorded, now), fresh = Without(now, recorded);
  if (lost.empty() && fresh.empty()) {
    return absl::OkStatus();
  }
  if (recorded.empty()) return Differs(ask, response, "was left out by a filter, and is not now");
  if (now.empty()) return Differs(ask, response, "was trained on, and a filter leaves it out now");
  if (fresh.empty()) {
    return Differs(ask, response, absl::StrCat("lacks a column, of hash ", HexOf(lost[0])));
  }
  const std::vector<std::string> names = NamesOf(built, response);
  const auto at = static_cast<size_t>(std::find(now.begin(), now.end(), fresh[0]) - now.begin());
  return Differs(ask, response,
                 absl::StrCat("has column ", at < names.size() ? names[at] : absl::StrCat(at),
                              " of hash ", HexOf(fresh[0]), ", recorded is ",
                              lost.empty() ? "no such column" : HexOf(lost[0])));
}

}  // namespace

absl::StatusOr<std::optional<store::v1::BatchRow>> ReadBatchRow(store::Store& store,
                                                                const std::string& job,
                                                                int64_t step) {
  BATON_ASSIGN_OR_RETURN(const auto stored,
                         store.Get(kBatchTable, NumberKey(job, static_cast<uint64_t>(step))));
  if (!stored.has_value()) return std::optional<store::v1::BatchRow>();
  store::v1::BatchRow row;
  if (!row.ParseFromString(*stored) || row.step() != step) {
    return absl::DataLossError(
        absl::StrCat("the row of the batch of step ", step, " of ", job, " is damaged"));
  }
  return std::optional<store::v1::BatchRow>(std::move(row));
}

void AskFor(const store::v1::BatchRow& row, BuildBatch* ask) {
  ask->trajectories.clear();
  for (const store::v1::BatchEntry& entry : row.entries()) {
    ask->trajectories.push_back(FromRow(entry.trajectory(), /*serial=*/0, /*wanted=*/0));
  }
  ask->baselines = {row.baselines().begin(), row.baselines().end()};
}

absl::Status CompareWithRow(const store::v1::BatchRow& row, const BuildBatch& ask,
                            BuiltBatch* built) {
  if (static_cast<size_t>(row.entries_size()) != ask.trajectories.size()) {
    return absl::DataLossError(absl::StrCat("the batch of step ", ask.step, " has ",
                                            ask.trajectories.size(), " responses, recorded are ",
                                            row.entries_size()));
  }
  for (size_t i = 0; i < ask.trajectories.size(); ++i) {
    const store::v1::BatchEntry& entry = row.entries(static_cast<int>(i));
    const uint64_t id = ask.trajectories[i].id;
    if (entry.trajectory().id() != id) {
      return Differs(
          ask, id,
          absl::StrCat("stands where ", TrajectoryName(entry.trajectory().id()), " stood"));
    }
    const auto found = built->event.column_hashes.find(id);
    const Hashes now = found == built->event.column_hashes.end() ? Hashes() : found->second;
    BATON_RETURN_IF_ERROR(CompareColumns(
        ask, *built, id, {entry.column_hashes().begin(), entry.column_hashes().end()}, now));
  }
  if (ask.recorded == Recorded::kReplay) built->event.replayed = ask.trajectories;
  return absl::OkStatus();
}

}  // namespace baton::controller
