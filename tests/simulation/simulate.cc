// ./dev simulate: runs seeds of the simulated world, and says which rule broke and how.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>

#include "controller/core/mutation.h"
#include "tests/simulation/runner.h"

namespace baton::simulation {
namespace {

using controller::Mutation;

struct NamedMutation {
  const char* name;
  Mutation mutation;
  bool expected;  ///< To be caught; the others are known to slip through.
};
constexpr NamedMutation kMutations[] = {
    {"double-update", Mutation::kDoubleUpdate, true},
    {"ack-before-commit", Mutation::kAckBeforeCommit, true},
    {"skipped-sequence", Mutation::kSkippedSequence, true},
    {"stale-epoch-accepted", Mutation::kStaleEpochAccepted, true},
    {"stale-token-accepted", Mutation::kStaleTokenAccepted, true},
    {"evaluation-in-batch", Mutation::kEvaluationInBatch, true},
    {"group-in-part", Mutation::kGroupInPart, true},
    {"ready-lost-at-restart", Mutation::kReadyLostAtRestart, true},
    {"stale-restored", Mutation::kStaleRestored, true},
    {"stale-consumed", Mutation::kStaleConsumed, true},
    {"leased-version-deleted", Mutation::kLeasedVersionDeleted, true},
    {"lease-renewed-after-end", Mutation::kLeaseRenewedAfterEnd, true},
    {"complete-before-rename", Mutation::kCompleteBeforeRename, true},
    {"turn-while-working", Mutation::kTurnWhileWorking, true},
    {"command-while-working", Mutation::kCommandWhileWorking, true},
    {"commands-at-once", Mutation::kCommandsAtOnce, true},
    {"every-rank-scores", Mutation::kEveryRankScores, true},
    {"no-reward-in-batch", Mutation::kNoRewardInBatch, true},
    {"unsynced-epoch", Mutation::kUnsyncedEpoch, true},
    {"unsynced-turn", Mutation::kUnsyncedTurn, true},
    {"unsynced-checkpoint", Mutation::kUnsyncedCheckpoint, true},
    {"pool-not-awaited", Mutation::kPoolNotAwaited, false},
    {"epoch-not-in-attempts", Mutation::kEpochNotInAttempts, false},
    {"evaluation-miscounts", Mutation::kEvaluationMiscounts, false},
    {"command-deadline-not-reset", Mutation::kCommandDeadlineNotReset, false},
};

struct Arguments {
  uint64_t seeds = 1000;
  uint64_t from = 1;
  int threads = 2;
  bool trace = false;
  bool coverage = false;
  bool all_mutations = false;
  std::string mutation;
};

int Usage() {
  std::fprintf(stderr,
               "simulate [--seeds N] [--from S] [--threads T] [--trace] [--coverage]\n"
               "         [--mutation NAME | --all-mutations]\n\nmutations:");
  for (const NamedMutation& m : kMutations) std::fprintf(stderr, " %s", m.name);
  std::fprintf(stderr, "\n");
  return 2;
}

bool Parse(int argc, char** argv, Arguments& out) {
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : nullptr;
    if (flag == "--trace") {
      out.trace = true;
    } else if (flag == "--coverage") {
      out.coverage = true;
    } else if (flag == "--all-mutations") {
      out.all_mutations = true;
    } else if (value == nullptr) {
      return false;
    } else if (flag == "--seeds") {
      out.seeds = std::strtoull(argv[++i], nullptr, 10);
    } else if (flag == "--from") {
      out.from = std::strtoull(argv[++i], nullptr, 10);
    } else if (flag == "--threads") {
      out.threads = std::atoi(argv[++i]);
    } else if (flag == "--mutation") {
      out.mutation = argv[++i];
    } else {
      return false;
    }
  }
  return true;
}

[[maybe_unused]] bool Activate(Mutation mutation) {
#ifdef BATON_MUTATIONS
  controller::active_mutation = mutation;
  return true;
#else
  std::fprintf(stderr, "this build has no mutations; use simulate_mutants\n");
  return false;
#endif
}

void PrintTrace(const Scenario& scenario) {
  Coverage ignored;
  const Outcome outcome = RunScenario(scenario, &ignored, /*tracing=*/true);
  for (const std::string& line : outcome.trace) std::printf("%s\n", line.c_str());
}

// The failing seed, and the smallest scenario that still breaks the same rule.
void Explain(const Outcome& failure) {
  std::printf("seed %llu breaks %s\n", static_cast<unsigned long long>(failure.seed),
              failure.violation.c_str());
  const Scenario whole = MakeScenario(failure.seed);
  const Scenario least = Shrink(whole, failure.violation);
  std::printf("%zu of its %zu faults and %zu of its %zu jobs suffice:\n", least.faults.size(),
              whole.faults.size(), least.jobs.size(), whole.jobs.size());
  for (const Fault& fault : least.faults) std::printf("  %s\n", Describe(fault).c_str());
  PrintTrace(least);
}

int Seeds(const Arguments& arguments) {
  if (arguments.trace && arguments.seeds == 1) PrintTrace(MakeScenario(arguments.from));
  const Report report = RunSeeds(arguments.from, arguments.seeds, arguments.threads, true);
  if (report.first_failure.has_value()) {
    if (arguments.trace && arguments.seeds == 1) return 1;  // told above
    Explain(*report.first_failure);
    return 1;
  }
  if (arguments.coverage) std::printf("%s", report.coverage.Report().c_str());
  std::printf("%llu seeds from %llu, %llu events: every rule held\n",
              static_cast<unsigned long long>(report.seeds),
              static_cast<unsigned long long>(arguments.from),
              static_cast<unsigned long long>(report.events));
  return 0;
}

// Every expected mutation must be caught.
int AllMutations(const Arguments& arguments) {
  int missed = 0;
  for (const NamedMutation& m : kMutations) {
    if (!Activate(m.mutation)) return 2;
    const Report report = RunSeeds(arguments.from, arguments.seeds, arguments.threads, true);
    if (report.first_failure.has_value()) {
      std::printf("%-28s caught at seed %llu: %s\n", m.name,
                  static_cast<unsigned long long>(report.first_failure->seed),
                  report.first_failure->violation.c_str());
    } else {
      std::printf("%-28s %s in %llu seeds\n", m.name,
                  m.expected ? "NOT CAUGHT" : "slips through, as is known,",
                  static_cast<unsigned long long>(report.seeds));
      missed += m.expected ? 1 : 0;
    }
    std::fflush(stdout);
  }
  return missed == 0 ? 0 : 1;
}

int Main(int argc, char** argv) {
  Arguments arguments;
  if (!Parse(argc, argv, arguments)) return Usage();
  if (arguments.all_mutations) return AllMutations(arguments);
  if (!arguments.mutation.empty()) {
    const auto* end = std::end(kMutations);
    const auto* it = std::find_if(std::begin(kMutations), end, [&](const NamedMutation& m) {
      return arguments.mutation == m.name;
    });
    if (it == end) return Usage();
    if (!Activate(it->mutation)) return 2;
  }
  return Seeds(arguments);
}

}  // namespace
}  // namespace baton::simulation

int main(int argc, char** argv) { return baton::simulation::Main(argc, argv); }
