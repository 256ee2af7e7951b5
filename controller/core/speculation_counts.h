// What came of the drafts that rollouts verified (rollout.speculation), for the metrics of a step.
//
// Owns sums of what workers told with their responses (spec/* of TaskResult.metrics): numbers of a
// replica since its response before, so each is told once.
#ifndef BATON_CONTROLLER_CORE_SPECULATION_COUNTS_H_
#define BATON_CONTROLLER_CORE_SPECULATION_COUNTS_H_

#include <map>
#include <string>

#include "absl/strings/string_view.h"

namespace baton::controller {

class SpeculationCounts {
 public:
  /// A metric of a generation that counts here.
  static bool IsKnown(absl::string_view name);
  /// What a generation measured. Names that are not known, and numbers that make no sense, count
  /// for nothing.
  void Note(const std::map<std::string, double>& measured);
  /// rollout/spec/* since the last call; none, if no draft was verified.
  std::map<std::string, double> Take();

 private:
  std::map<std::string, double> sums_;  // by name, without the prefix
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_SPECULATION_COUNTS_H_
