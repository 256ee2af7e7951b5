// Detection of workers that are persistently slower than their peers.
//
// Each role of a job has one of these. Every piece of work that a worker does in a phase is a
// sample; at the phase's end each worker's median is compared with its peers' medians of the same
// phase. A worker is slow if its median is more than `factor` times theirs and more than `mads`
// scaled median absolute deviations above it (the modified z-score of Iglewicz and Hoaglin, "How to
// detect and handle outliers", 1993, with the worker itself left out, so that two workers can be
// told apart). A worker must stay slow for several phases.
//
// Pure and deterministic.
#ifndef BATON_CONTROLLER_CORE_JOB_STRAGGLER_DETECTOR_H_
#define BATON_CONTROLLER_CORE_JOB_STRAGGLER_DETECTOR_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace baton::controller {

struct StragglerOptions {
  double factor = 2.5;     ///< Times the peers' median.
  double mads = 6;         ///< Scaled deviations above it.
  size_t min_samples = 3;  ///< Of a worker in a phase; one with fewer is not judged.
  int min_phases = 5;      ///< In a row.
  absl::Duration persists = absl::Seconds(30);  ///< From the first of them; infinite: never slow.
};

class StragglerDetector {
 public:
  struct Slow {
    std::string worker;
    double seconds = 0;  ///< The worker's median in the last phase, per unit of work.
    double peers = 0;    ///< The median of its peers' medians.
    absl::Duration since = absl::ZeroDuration();  ///< How long it has been slow.
  };
  explicit StragglerDetector(const StragglerOptions& options) : options_(options) {}

  /// Seconds per unit (a token, a response) of one piece of work. Negative and non-finite values
  /// are ignored.
  void Add(const std::string& worker, double seconds);
  /// The worker left, or starts again from nothing.
  void Forget(const std::string& worker);
  /// Returns and forgets the slowest of the persistently slow workers, if there is one.
  std::optional<Slow> EndPhase(absl::Time now);
  /// The phase was interrupted: its samples are dropped.
  void DropPhase() { samples_.clear(); }

 private:
  struct Streak {
    absl::Time since;
    int phases = 0;
  };
  const StragglerOptions options_;
  std::map<std::string, std::vector<double>> samples_;  // of this phase
  std::map<std::string, Streak> slow_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_JOB_STRAGGLER_DETECTOR_H_
