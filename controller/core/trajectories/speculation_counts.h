// Counts of the drafts that rollouts verified (rollout.speculation), for the metrics of a step.
//
// Owns sums of what workers report with their responses (spec/* of TaskResult.metrics): a replica's
// numbers since its previous response, so each is reported once.
#ifndef BATON_CONTROLLER_CORE_TRAJECTORIES_SPECULATION_COUNTS_H_
#define BATON_CONTROLLER_CORE_TRAJECTORIES_SPECULATION_COUNTS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/string_view.h"

namespace baton::controller {

class SpeculationCounts {
 public:
  /// A metric of a generation that counts here.
  static bool IsKnown(absl::string_view name);
  /// Adds the metrics of a generation. Unknown names and nonsensical numbers are ignored.
  void Note(const std::map<std::string, double>& measured);
  /// A response that was made again had an earlier one of `drafted` tokens as its draft, and drew
  /// `accepted` of them as well.
  void NoteMadeAgain(uint32_t drafted, double accepted);
  /// rollout/spec/* since the last call; if no draft of the trees was verified, only the
  /// seconds that they took and the history that replicas fetched.
  std::map<std::string, double> Take();

 private:
  std::map<std::string, double> sums_;               // by name, without the prefix
  double made_again_ = 0, made_again_accepted_ = 0;  // tokens
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_TRAJECTORIES_SPECULATION_COUNTS_H_
