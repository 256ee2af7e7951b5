// The batch of the step in progress, once it is built.
//
// Owns what the runtime said of it (BatchBuilt), and whether it waits for the actor.
//
//   none --Built--> stands --the update leaves--> trained on --Clear: the step ends--> none
//                   |    ^
//                   +----+ Hold: the actor that is to train on it publishes its weights again
#ifndef BATON_CONTROLLER_CORE_TRAJECTORIES_STANDING_BATCH_H_
#define BATON_CONTROLLER_CORE_TRAJECTORIES_STANDING_BATCH_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "controller/core/job/events.h"

namespace baton::controller {

class StandingBatch {
 public:
  void Built(BatchBuilt event, absl::Time now) {
    event_ = std::move(event);
    at_ = now;
  }
  /// The step ends, or the batch is given up. Its size and its metrics are known until the next one
  /// stands.
  void Clear() {
    event_.column_hashes.clear();
    event_.algorithm.clear();
    held_ = false;
  }

  /// Responses in it.
  uint32_t size() const { return event_.size; }
  /// Prompt groups in it.
  uint32_t groups() const { return event_.groups; }
  /// Its row has more responses.
  bool part_of_row() const { return event_.part_of_row; }
  absl::Time built_at() const { return at_; }
  const std::map<std::string, double>& metrics() const { return event_.metrics; }
  /// Of each response in it, by id.
  const std::map<uint64_t, std::vector<uint64_t>>& column_hashes() const {
    return event_.column_hashes;
  }
  /// What the algorithm carries on from its step. It is taken once: the step is done.
  std::map<std::string, double> TakeAlgorithm() { return std::exchange(event_.algorithm, {}); }

  /// It waits for the actor.
  void Hold() { held_ = true; }
  bool held() const { return held_; }
  /// Whether it waited; it waits no longer.
  bool TakeHeld() { return std::exchange(held_, false); }

 private:
  BatchBuilt event_;
  bool held_ = false;
  absl::Time at_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_TRAJECTORIES_STANDING_BATCH_H_
