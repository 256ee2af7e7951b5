// The runner of seeds, which also finds the fewest faults with which a seed still fails.
#ifndef BATON_TESTS_SIMULATION_RUNNER_H_
#define BATON_TESTS_SIMULATION_RUNNER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/simulation/parts/coverage.h"
#include "tests/simulation/parts/faults.h"

namespace baton::simulation {

struct Outcome {
  uint64_t seed = 0;
  std::string violation;  ///< "": every rule held.
  uint64_t events = 0;
  uint64_t fingerprint = 0;
  uint64_t turns = 0;              ///< Digest of its jobs' turns, when Scenario::digests_turns.
  std::vector<std::string> trace;  ///< Filled when asked for.
};
Outcome RunScenario(const Scenario& scenario, Coverage* coverage, bool tracing);

/// The scenario with as few faults and jobs as still break the same rule.
Scenario Shrink(const Scenario& scenario, const std::string& violation);

struct Report {
  uint64_t seeds = 0;  ///< Seeds that were run.
  uint64_t events = 0;
  Coverage coverage;
  std::optional<Outcome> first_failure;  ///< Outcome of the smallest failing seed.
  uint64_t failures = 0;
  uint64_t turns = 0;  ///< Digest of the turns of all, when asked for.
};
/// Runs seeds [from, from + count) on `threads` threads; with `stop_at_failure` no seed that is
/// larger than a failing one is begun.
Report RunSeeds(uint64_t from, uint64_t count, int threads, bool stop_at_failure,
                bool digests_turns = false);

}  // namespace baton::simulation

#endif  // BATON_TESTS_SIMULATION_RUNNER_H_
