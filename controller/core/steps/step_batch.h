// The prompt groups of a step's batch: selected from complete groups, scored where the dataflow
// asks for it, and taken out of the work.
//
// Owns which groups are in the batch. The scheduler owns their trajectories until they are taken,
// and the buffer after that. batch_flow.h says what happens to the batch:
//
// clang-format off
//   complete groups --> selected: scores are made --> taken: the update learns --> spent
//        ^                  |                            |
//        +------------------+----------------------------+
//          given back: the job goes back, or a payload is lost
//
//   restored: of an update that a restart interrupted, until its responses are there --> taken
// clang-format on
#ifndef BATON_CONTROLLER_CORE_STEPS_STEP_BATCH_H_
#define BATON_CONTROLLER_CORE_STEPS_STEP_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "baton/store/v1/rows.pb.h"
#include "controller/core/trajectories/step_metrics.h"

namespace baton::controller {

struct StepBatch {
  void Restore(const store::v1::JobRow& row) {
    for (const store::v1::OpenPrompts& open : row.open_prompts()) {
      for (uint64_t i = 0; open.in_batch() && i < open.count(); ++i) {
        restored.push_back(open.prompt_index() + i);
      }
    }
  }
  /// The groups that an update may be learning from.
  std::set<uint64_t> PromptIndices() const {
    std::set<uint64_t> prompt_indices(restored.begin(), restored.end());
    prompt_indices.insert(taken.begin(), taken.end());
    return prompt_indices;
  }
  /// True if the trainer works on a batch: it scores the batch, learns from it, or did so before a
  /// restart.
  bool begun() const { return !selected.empty() || !taken.empty() || !restored.empty(); }
  void Clear() {
    selected.clear();
    taken.clear();
    restored.clear();
  }

  /// Groups selected for the next batch, while the scores of the selection are made; the first
  /// `scored` have them.
  std::vector<uint64_t> selected;
  size_t scored = 0;
  /// Groups of the batch that left the work.
  std::vector<uint64_t> taken;
  /// Groups of the update that a restart interrupted, not yet taken; ascending.
  std::vector<uint64_t> restored;
  /// Times of the step: its beginning, and the completion of its batch.
  StepTimes times;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_STEPS_STEP_BATCH_H_
