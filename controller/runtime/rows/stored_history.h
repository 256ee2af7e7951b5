// Index of a job's rows in the store by the prompt that they respond to: for a seed job
// (spec.rollout.speculation.seed_from), and for a restored job, whose core reads only the rows of
// the step in progress.
#ifndef BATON_CONTROLLER_RUNTIME_ROWS_STORED_HISTORY_H_
#define BATON_CONTROLLER_RUNTIME_ROWS_STORED_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/core/prompts/prompt_history.h"
#include "controller/store/store.h"

namespace baton::controller {

/// Reads the newest rows of a job page by page, so that other readers of the store come in between.
/// One thread at a time.
class StoredHistory {
 public:
  /// About 10 MB in memory.
  static constexpr size_t kMostRows = 1 << 17;

  /// `end`: rows below this serial; 0: all.
  explicit StoredHistory(std::string job, uint64_t end = 0, size_t most = kMostRows)
      : job_(std::move(job)), end_(end), most_(most) {}

  /// False: all rows are read. A row that is damaged is left out. Blocks.
  absl::StatusOr<bool> ReadMore(store::Store& store);
  /// The rows that were read. The last call.
  PromptHistory Take();

 private:
  const std::string job_;
  uint64_t end_;  // of the next page
  const size_t most_;
  std::vector<std::pair<uint64_t, PastResponse>> rows_;  // by PromptKey; the newest first
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_ROWS_STORED_HISTORY_H_
