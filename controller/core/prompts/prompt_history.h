// Index of kept rows by the prompt that they respond to.
//
// A rollout drafts a response from earlier responses to the same prompt. A rollout that lacks them,
// such as a worker that replaced another, fetches them (ExperienceService.FetchHistory), and this
// class says where they are in the experience log.
//
// Derived from rows: the rows that the core puts and finds (ExperienceBuffer), or those of the
// store (controller/runtime/rows/stored_history.h).
#ifndef BATON_CONTROLLER_CORE_PROMPTS_PROMPT_HISTORY_H_
#define BATON_CONTROLLER_CORE_PROMPTS_PROMPT_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "controller/core/job/trajectory.h"

namespace baton::controller {

/// A response whose row is kept.
struct PastResponse {
  uint64_t id = 0;
  uint64_t serial = 0;
  uint64_t policy_version = 0;  ///< The version that made it.
  uint32_t tokens = 0;
  PayloadLocation location;
};

/// About a hundred bytes a row. Each call takes constant time for each row that it adds, drops or
/// answers.
class PromptHistory {
 public:
  /// The row of a response to the prompt of that key (PromptKey), whose payload is in the log. Rows
  /// come in the order of their serials. A row without a payload or without tokens is ignored.
  void Note(uint64_t prompt, const PastResponse& response);
  void Note(const TrajectoryInfo& trajectory);
  /// Rows below `serial` are not kept any more.
  void Retire(uint64_t serial);
  /// Responses to the prompt of that key, the newest first; `most` at most.
  std::vector<PastResponse> Of(uint64_t prompt, size_t most) const;
  size_t rows() const { return rows_.size(); }
  /// The serial of the oldest row; 0: there is none.
  uint64_t first_serial() const { return rows_.empty() ? 0 : rows_.front().response.serial; }

 private:
  // Rows of one prompt are a chain from the newest to the oldest. Places count from 1, beginning
  // with the first row ever; a row at a place below first_ is gone.
  struct Row {
    PastResponse response;
    uint64_t prompt = 0;
    uint64_t before = 0;  // place of the prompt's next older row; 0: there was none
  };
  std::deque<Row> rows_;
  uint64_t first_ = 1;                             // place of rows_.front()
  std::unordered_map<uint64_t, uint64_t> newest_;  // place, by prompt
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_PROMPTS_PROMPT_HISTORY_H_
