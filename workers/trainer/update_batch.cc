#include "workers/trainer/update_batch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sdk/common/base/status_macros.h"

namespace baton::trainer {
namespace {

/// Compares lengths, mask and sign: the other ranks have divided the batch by them.
bool Matches(const engine::TrainSequence& header, const engine::TrainSequence& whole) {
  return header.length() == whole.length() && header.prompt_length == whole.prompt_length &&
         header.loss_mask == whole.loss_mask && header.positive == whole.positive;
}

}  // namespace

absl::StatusOr<std::vector<v1::Trajectory>> FetchUpdateBatch(const ExperienceClient& experience,
                                                             TaskContext& context, BatchView view) {
  const v1::Update& update = context.task().update();
  BATON_ASSIGN_OR_RETURN(auto trajectories, view == BatchView::kHeaders
                                                ? experience.FetchHeaders(context)
                                                : experience.FetchBatch(context));
  if (update.batch_size() > 0 && static_cast<int>(trajectories.size()) != update.batch_size()) {
    return absl::DataLossError(absl::StrCat("the batch of step ", update.step(), " has ",
                                            trajectories.size(), " trajectories instead of ",
                                            update.batch_size()));
  }
  if (context.cancelled()) return absl::CancelledError("update was cancelled");
  return trajectories;
}

absl::Status FetchShare(const ExperienceClient& experience, TaskContext& context,
                        absl::Span<const v1::Trajectory> fetched, absl::Span<const int64_t> share,
                        const policy::ValueColumns& columns,
                        std::vector<engine::TrainSequence>* batch) {
  std::vector<engine::TrainSequence*> wanted;
  for (int64_t index : share) {
    engine::TrainSequence& sequence = (*batch)[static_cast<size_t>(index)];
    if (sequence.remote()) wanted.push_back(&sequence);
  }
  std::sort(wanted.begin(), wanted.end(),
            [](const auto* a, const auto* b) { return a->row < b->row; });
  std::vector<int64_t> rows;
  for (const engine::TrainSequence* sequence : wanted) rows.push_back(sequence->row);
  BATON_ASSIGN_OR_RETURN(const auto trajectories, experience.FetchRows(context, rows));
  for (size_t i = 0; i < wanted.size(); ++i) {
    const v1::Trajectory& header = fetched[static_cast<size_t>(rows[i])];
    BATON_ASSIGN_OR_RETURN(auto whole, policy::FromColumns(trajectories[i], columns));
    if (trajectories[i].trajectory_id() != header.trajectory_id() || !Matches(*wanted[i], whole)) {
      return absl::DataLossError(absl::StrCat(
          "trajectory ", trajectories[i].trajectory_id(), " does not fit the header of ",
          header.trajectory_id(), " at ", rows[i], " of its batch"));
    }
    whole.row = rows[i];
    *wanted[i] = std::move(whole);
  }
  return absl::OkStatus();
}

void FollowTask(TaskContext& context, engine::UpdateOptions* options) {
  options->cancelled = [&context] { return context.cancelled(); };
  options->progress = [&context](int64_t done, int64_t total) {
    context.ReportDone(static_cast<uint32_t>(done), static_cast<uint32_t>(total));
  };
}

}  // namespace baton::trainer
