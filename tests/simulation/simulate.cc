// ./dev simulate: runs seeds of the simulated world, and says which rule broke and how.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/simulation/runner.h"

namespace baton::simulation {
namespace {

// A row of the table of mutants that the simulator is to notice.
struct Row {
  std::string name;
  uint64_t seeds = 0;     ///< Most seeds that it takes.
  bool survives = false;  ///< The mutant is known to slip through.
};

constexpr char kTable[] = "tests/mutants/mutants.txt";

std::vector<Row> ReadTable() {
  std::ifstream in(kTable);
  std::vector<Row> rows;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    Row row;
    std::string program, flag;
    words >> row.name >> program >> flag >> row.seeds;
    row.survives = line.find(" survives: ") != std::string::npos;
    if (program == "simulate") rows.push_back(std::move(row));
  }
  return rows;
}

struct Arguments {
  uint64_t seeds = 1000;
  uint64_t from = 1;
  int threads = 2;
  bool trace = false;
  bool coverage = false;
  bool turns = false;
  std::string mutant;
  bool all_mutants = false;
};

int Usage() {
  std::fprintf(stderr,
               "simulate [--seeds N] [--from S] [--threads T] [--trace] [--coverage]\n"
               "         [--turns] [--mutant NAME | --all-mutants]\n");
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
    } else if (flag == "--turns") {
      out.turns = true;
    } else if (flag == "--all-mutants") {
      out.all_mutants = true;
    } else if (value == nullptr) {
      return false;
    } else if (flag == "--seeds") {
      out.seeds = std::strtoull(argv[++i], nullptr, 10);
    } else if (flag == "--from") {
      out.from = std::strtoull(argv[++i], nullptr, 10);
    } else if (flag == "--threads") {
      out.threads = std::atoi(argv[++i]);
    } else if (flag == "--mutant") {
      out.mutant = argv[++i];
    } else {
      return false;
    }
  }
  return true;
}

bool Choose([[maybe_unused]] const std::string& mutant) {
#ifdef BATON_MUTANTS
  ChosenMutant() = mutant.c_str();
  return true;
#else
  std::fprintf(stderr, "this build has no mutants; use simulate_mutants\n");
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
  const Report report =
      RunSeeds(arguments.from, arguments.seeds, arguments.threads, true, arguments.turns);
  if (report.first_failure.has_value()) {
    if (arguments.trace && arguments.seeds == 1) return 1;  // told above
    Explain(*report.first_failure);
    return 1;
  }
  if (arguments.turns) {
    std::printf("turns %016llx\n", static_cast<unsigned long long>(report.turns));
  }
  if (arguments.coverage) std::printf("%s", report.coverage.Report().c_str());
  std::printf("%llu seeds from %llu, %llu events: every rule held\n",
              static_cast<unsigned long long>(report.seeds),
              static_cast<unsigned long long>(arguments.from),
              static_cast<unsigned long long>(report.events));
  return 0;
}

// Every mutant of the table must be caught, unless the table says that it survives.
int AllMutants(const Arguments& arguments) {
  const auto rows = ReadTable();
  if (rows.empty()) {
    std::fprintf(stderr, "%s has no mutants for the simulator; run this in the project's root\n",
                 kTable);
    return 2;
  }
  int missed = 0;
  for (const Row& row : rows) {
    if (!Choose(row.name)) return 2;
    const Report report = RunSeeds(arguments.from, row.seeds, arguments.threads, true);
    if (report.first_failure.has_value()) {
      std::printf("%-28s caught at seed %llu: %s\n", row.name.c_str(),
                  static_cast<unsigned long long>(report.first_failure->seed),
                  report.first_failure->violation.c_str());
    } else {
      std::printf("%-28s %s in %llu seeds\n", row.name.c_str(),
                  row.survives ? "slips through, as is known," : "NOT CAUGHT",
                  static_cast<unsigned long long>(report.seeds));
      missed += row.survives ? 0 : 1;
    }
    std::fflush(stdout);
  }
  return missed == 0 ? 0 : 1;
}

int Main(int argc, char** argv) {
  Arguments arguments;
  if (!Parse(argc, argv, arguments)) return Usage();
  if (arguments.all_mutants) return AllMutants(arguments);
  if (!arguments.mutant.empty() && !Choose(arguments.mutant)) return 2;
  return Seeds(arguments);
}

}  // namespace
}  // namespace baton::simulation

int main(int argc, char** argv) { return baton::simulation::Main(argc, argv); }
