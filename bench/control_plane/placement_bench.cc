// The time that planning takes, and what it finds:
// `./dev bench placement [--table] [--quick] [--json FILE]`.
//
//   plan_4x70b_128_seconds          four 70B models on 128 A100; aim below 2 s
//   plan_4x70b_128_any_pp_seconds   the same with any number of pipeline stages
//   plan_5x70b_1024_seconds         five models on 1024
//   plan_5x70b_1024_comparisons     what a controller weighs for them, of 2 billion
//   comparisons_per_second          of that search
//   stages_{n}/{model}/{devices}/{placement}/tokens_per_second   HybridFlow's workload, as
//                                   predicted, for pipelines of at most n stages
// --table prints the last as Markdown, for at most 1, 2, 4 and any number of stages.
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/support/report.h"
#include "sdk/planner/placement/search.h"

namespace baton::bench {
namespace {

using placement::Problem;

constexpr const char* kPlacements[] = {"colocate", "split", "standalone", "auto"};

Problem Ppo(const std::string& model, int devices, int max_pipeline, bool cost = false) {
  Problem problem;
  problem.setting.device = *placement::FindDevice("a100-80g");
  problem.devices = devices;
  problem.max_pipeline = max_pipeline;
  for (const char* name : {"actor", "critic", "reference", "reward_model", "cost"}) {
    placement::Role role;
    role.name = name;
    role.model = *placement::FindModel(model);
    role.generates = role.name == "actor";
    role.scores = !role.generates;
    role.trains = role.name == "actor" || role.name == "critic";
    role.model.scalar_head = role.name != "actor" && role.name != "reference";
    if (role.name != "cost" || cost) problem.roles.push_back(role);
  }
  return problem;
}

absl::StatusOr<placement::SearchResult> Plan(const Problem& problem, const std::string& name) {
  placement::Restriction restriction;
  if (name != "auto") {
    restriction.partitions.push_back(*placement::NamedPartition(name, problem.roles));
  }
  return placement::Search(problem, restriction);
}

double Throughput(const Problem& problem, const placement::Plan& plan) {
  const placement::Workload& w = problem.setting.workload;
  return static_cast<double>(w.generated) * w.tokens() / plan.seconds;
}

// Seconds of the fastest of some searches.
double SearchSeconds(const Problem& problem, int repeats) {
  double best = 1e300;
  for (int i = 0; i < repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    if (!placement::Search(problem).ok()) return 0;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count());
  }
  return best;
}

std::string PlanText(const Problem& problem, const placement::SearchResult& result) {
  std::string devices;
  for (const auto& pool : result.best().pools) {
    absl::StrAppend(&devices, devices.empty() ? "" : "+", pool.devices);
  }
  return absl::StrCat(placement::PartitionText(problem, result.candidates[0].partition), ": ",
                      devices);
}

void PrintTable(int max_pipeline) {
  std::printf(
      "\n| model | devices | colocate | split | standalone | auto | auto's pools |\n"
      "|---|---|---|---|---|---|---|\n");
  for (const char* model : {"llama-7b", "llama-13b", "llama-34b", "llama-70b"}) {
    for (const int devices : {8, 16, 32, 64, 96, 128}) {
      const Problem problem = Ppo(model, devices, max_pipeline);
      std::string row = absl::StrCat("| ", model, " | ", devices);
      const auto best = Plan(problem, "auto");
      if (!best.ok()) continue;
      for (const char* name : kPlacements) {
        const auto result = Plan(problem, name);
        absl::StrAppend(
            &row, " | ",
            result.ok() ? absl::StrFormat("%.1f", Throughput(problem, result->best()) / 1e3) : "–");
      }
      std::printf("%s | %s |\n", row.c_str(), PlanText(problem, *best).c_str());
    }
  }
}

void AddThroughputs(Report* report) {
  for (const int stages : {4, 2}) {
    for (const char* model : {"llama-13b", "llama-34b", "llama-70b"}) {
      for (const int devices : {16, 32, 64, 96, 128}) {
        const Problem problem = Ppo(model, devices, stages);
        for (const char* name : kPlacements) {
          const auto result = Plan(problem, name);
          if (!result.ok()) continue;
          report->Add(absl::StrCat("stages_", stages, "/", model, "/", devices, "/", name,
                                   "/tokens_per_second"),
                      Throughput(problem, result->best()), "tokens/s",
                      name == std::string("auto") ? PlanText(problem, *result) : "");
        }
      }
    }
  }
}

int Main(int argc, char** argv) {
  CLI::App app("Placement: how long planning takes, and what it finds");
  std::string json;
  bool quick = false, table = false;
  app.add_option("--json", json, "Write the rows to this file");
  app.add_flag("--quick", quick, "One search each");
  app.add_flag("--table", table, "Print what it finds as Markdown, for other pipelines too");
  CLI11_PARSE(app, argc, argv);
  Report report("placement");
  const int repeats = quick ? 1 : 5;
  report.Add("plan_4x70b_128_seconds", SearchSeconds(Ppo("llama-70b", 128, 4), repeats), "s",
             "aim: below 2");
  report.Add("plan_4x70b_128_any_pp_seconds", SearchSeconds(Ppo("llama-70b", 128, 0), repeats),
             "s");
  report.Add("plan_5x70b_1024_seconds", SearchSeconds(Ppo("llama-70b", 1024, 4, true), repeats),
             "s");
  const Problem submitted = Ppo("llama-70b", 1024, 1, true);
  const auto weighed = placement::Search(submitted);
  const auto work = static_cast<double>(weighed.ok() ? weighed->work : 0);
  report.Add("plan_5x70b_1024_comparisons", work, "", "a controller stops at 2,000,000,000");
  report.Add("comparisons_per_second", work / SearchSeconds(submitted, repeats), "1/s");
  AddThroughputs(&report);
  report.Print();
  if (table) {
    for (const int max_pipeline : {4, 1, 2, 0}) {
      std::printf("\nthousand tokens/s, at most %s pipeline stages\n",
                  max_pipeline == 0 ? "any number of" : absl::StrCat(max_pipeline).c_str());
      PrintTable(max_pipeline);
    }
  }
  return json.empty() || report.WriteJson(json) ? 0 : 1;
}

}  // namespace
}  // namespace baton::bench

int main(int argc, char** argv) { return baton::bench::Main(argc, argv); }
