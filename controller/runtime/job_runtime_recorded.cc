// JobRuntime: batches, and the rows that some of them have in the store.
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/runtime/job_runtime.h"
#include "controller/runtime/recorded_batch.h"

namespace baton::controller {

// If the batch has a row, the row is read first, and the batch is compared with it.
void JobRuntime::Do(const BuildBatch& asked) {
  if (asked.recorded == Recorded::kNot) return Build(asked, nullptr);
  OnDisk([this, asked] {
    auto row = ReadBatchRow(*context_->store, name_, asked.step);
    OnStrand([this, effect = asked, row = std::move(row)]() mutable {
      if (IsTerminal(core_.state())) return;
      const bool replays = effect.recorded == Recorded::kReplay;
      absl::Status status = row.status();
      if (status.ok() && replays && !row->has_value()) {
        status = absl::DataLossError(absl::StrCat(
            "step ", effect.step, " cannot be replayed: the row of its batch is gone"));
      }
      if (!status.ok()) return Run(BatchBuilt{status, effect.step, effect.incarnation});
      if (!row->has_value()) return Build(effect, nullptr);  // of an earlier release
      if (replays) AskFor(**row, &effect);
      Build(effect, std::make_shared<const store::v1::BatchRow>(**std::move(row)));
    });
  });
}

}  // namespace baton::controller
