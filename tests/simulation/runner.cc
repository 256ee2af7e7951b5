#include "tests/simulation/runner.h"

#include <atomic>
#include <mutex>
#include <thread>

#include "sdk/common/base/log.h"
#include "tests/simulation/parts/random.h"
#include "tests/simulation/world/world.h"

namespace baton::simulation {
namespace {

std::string RuleOf(const std::string& violation) {
  return violation.substr(0, violation.find(':'));
}

}  // namespace

Outcome RunScenario(const Scenario& scenario, Coverage* coverage, bool tracing) {
  baton::SilenceLog();  // the disks and networks of so many jobs fail on purpose
  World world(scenario, coverage, tracing);
  world.Run();
  return {scenario.seed,       world.violation(),     world.events(),
          world.fingerprint(), world.turns().value(), world.trace()};
}

Scenario Shrink(const Scenario& scenario, const std::string& violation) {
  Scenario best = scenario;
  Coverage ignored;
  auto fails = [&](const Scenario& candidate) {
    return RuleOf(RunScenario(candidate, &ignored, false).violation) == RuleOf(violation);
  };
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (size_t i = best.faults.size(); i-- > 0;) {
      Scenario candidate = best;
      candidate.faults.erase(candidate.faults.begin() + static_cast<std::ptrdiff_t>(i));
      if (!fails(candidate)) continue;
      best = candidate;
      smaller = true;
    }
    for (size_t i = best.jobs.size(); i-- > 0 && best.jobs.size() > 1;) {
      Scenario candidate = best;
      candidate.jobs.erase(candidate.jobs.begin() + static_cast<std::ptrdiff_t>(i));
      candidate.submitted.erase(candidate.submitted.begin() + static_cast<std::ptrdiff_t>(i));
      if (!fails(candidate)) continue;
      best = candidate;
      smaller = true;
    }
    if (best.lossy_calls) {
      Scenario candidate = best;
      candidate.lossy_calls = false;
      if (fails(candidate)) {
        best = candidate;
        smaller = true;
      }
    }
  }
  return best;
}

Report RunSeeds(uint64_t from, uint64_t count, int threads, bool stop_at_failure,
                bool digests_turns) {
  Report report;
  std::mutex mu;
  std::atomic<uint64_t> next{from};
  std::atomic<uint64_t> end{from + count};
  auto work = [&] {
    Coverage coverage;
    while (true) {
      const uint64_t seed = next++;
      if (seed >= end) break;
      Scenario scenario = MakeScenario(seed);
      scenario.digests_turns = digests_turns;
      if (digests_turns) scenario.hosts = false;  // as they were recorded
      Outcome outcome = RunScenario(scenario, &coverage, false);
      std::lock_guard<std::mutex> lock(mu);
      ++report.seeds;
      report.events += outcome.events;
      report.turns += Mix(seed, outcome.turns);  // seeds end in any order
      if (outcome.violation.empty()) continue;
      ++report.failures;
      if (!report.first_failure.has_value() || outcome.seed < report.first_failure->seed) {
        report.first_failure = outcome;
      }
      if (stop_at_failure) end = std::min(end.load(), seed);
    }
    std::lock_guard<std::mutex> lock(mu);
    report.coverage.Merge(coverage);
  };
  std::vector<std::thread> pool;
  for (int i = 1; i < threads; ++i) pool.emplace_back(work);
  work();
  for (std::thread& thread : pool) thread.join();
  return report;
}

}  // namespace baton::simulation
