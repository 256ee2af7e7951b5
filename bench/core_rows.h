// How fast the pure core turns events into effects.
#ifndef BATON_BENCH_CORE_ROWS_H_
#define BATON_BENCH_CORE_ROWS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"

namespace baton::bench {

struct CoreRun {
  double events_per_second = 0;
  int64_t events = 0;
  int64_t effects = 0;
  std::map<std::string, int64_t> mix;  ///< Events by kind.
};

/// A job of 512 prompts x 16 samples a step on 64 rollout replicas, one actor and 8 reward
/// workers goes through `steps` steps; its event stream is recorded, then replayed into a fresh
/// core against the clock. Effects are built in both. Internal: the replay went another way.
absl::StatusOr<CoreRun> MeasureCore(int steps);

}  // namespace baton::bench

#endif  // BATON_BENCH_CORE_ROWS_H_
