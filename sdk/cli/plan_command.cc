// plan: where a job's roles would best run, worked out on this machine alone.
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "sdk/cli/options.h"
#include "sdk/cli/plan_print.h"
#include "sdk/cli/plan_problem.h"
#include "sdk/client/nearest.h"
#include "sdk/client/spec_yaml.h"

namespace baton::cli {
namespace {

struct PlanFlags {
  std::string file;
  std::vector<std::string> sets, models;
  std::string device;
  int devices = 0;
  int devices_per_node = 0;
  double network = 0;
  double memory = 0;
  int max_pipeline = 4;
  int top = 5;
  std::string placement = "auto";
};

std::string OneOf(const std::string& given, const std::vector<std::string>& known) {
  const std::string* nearest = Nearest(given, known);
  return nearest != nullptr ? absl::StrCat("; did you mean '", *nearest, "'?")
                            : absl::StrCat("; it is one of: ", absl::StrJoin(known, ", "));
}

absl::StatusOr<placement::Device> ChooseDevice(const PlanFlags& flags) {
  const placement::Device* known = placement::FindDevice(absl::AsciiStrToLower(flags.device));
  if (known == nullptr) {
    std::vector<std::string> names;
    for (const placement::Device& device : placement::KnownDevices()) names.push_back(device.name);
    return absl::InvalidArgumentError(
        absl::StrCat("--device: there is no device '", flags.device, "' in the catalogue",
                     OneOf(absl::AsciiStrToLower(flags.device), names)));
  }
  placement::Device device = *known;
  if (flags.devices_per_node > 0) device.devices_per_node = flags.devices_per_node;
  if (flags.network > 0) device.network_bandwidth = flags.network * 1e9 / 8;
  if (flags.memory > 0) device.memory_bytes = flags.memory * 1e9;
  return device;
}

absl::StatusOr<placement::Restriction> Restrict(const std::string& name,
                                                const placement::Problem& problem) {
  placement::Restriction restriction;
  if (name == "auto") return restriction;
  auto partition = placement::NamedPartition(name, problem.roles);
  if (!partition.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--placement: there is no '", name, "'",
                     OneOf(name, {"auto", "colocate", "split", "standalone"})));
  }
  restriction.partitions.push_back(*std::move(partition));
  return restriction;
}

absl::StatusOr<std::string> ReadText(const std::string& file) {
  std::ifstream in(file);
  if (!in) return absl::NotFoundError(absl::StrCat(file, " cannot be opened"));
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

int RunPlan(const GlobalOptions& options, const PlanFlags& flags) {
  const absl::StatusOr<std::string> text =
      flags.file.empty() ? absl::StatusOr<std::string>(kDefaultPlanSpec) : ReadText(flags.file);
  if (!text.ok()) return Fail(options, text.status());
  const ParsedSpec parsed = ParseSpecYaml(*text, flags.sets);
  if (!parsed.problems.empty()) {
    std::fprintf(stderr, "baton: the spec has %zu problem%s\n%s", parsed.problems.size(),
                 parsed.problems.size() == 1 ? "" : "s",
                 FormatProblems(flags.file, parsed.problems).c_str());
    return kUsage;
  }
  const std::string folder = std::filesystem::path(flags.file).parent_path().string();
  auto made = MakePlanProblem({parsed.spec, folder, flags.models});
  if (!made.ok()) return Fail(options, made.status());
  placement::Problem& problem = made->problem;
  auto device = ChooseDevice(flags);
  if (!device.ok()) return Fail(options, device.status());
  problem.setting.device = *std::move(device);
  problem.devices = flags.devices;
  problem.max_pipeline = flags.max_pipeline;
  const auto restriction = Restrict(flags.placement, problem);
  if (!restriction.ok()) return Fail(options, restriction.status());

  const auto start = std::chrono::steady_clock::now();
  const auto result = placement::Search(problem, *restriction);
  if (!result.ok()) return Fail(options, result.status());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  const PlanReport report{problem, *result, std::move(made->notes), static_cast<size_t>(flags.top),
                          took.count()};
  std::printf("%s", options.json() ? PlanAsJson(report).c_str() : PlanAsText(report).c_str());
  return kOk;
}

}  // namespace

void AddPlanCommand(CLI::App& app, GlobalOptions* options, int* code) {
  auto* plan = app.add_subcommand(
      "plan",
      "Work out where a job's roles would best run: pools, layouts, memory, seconds\n"
      "e.g. baton plan job.yaml --devices 64 --device h100\n"
      "     baton plan --models llama-70b --devices 128 --device a100-80g\n"
      "Needs no controller and changes nothing. docs/placement.md has the formulas.");
  AddOutput(plan, options);
  auto flags = std::make_shared<PlanFlags>();
  plan->add_option("file", flags->file,
                   "The spec, e.g. job.yaml; without one: PPO with four models, 1024 responses");
  plan->add_option("--devices", flags->devices, "How many there are")
      ->required()
      ->check(CLI::Range(1, 65536));
  plan->add_option("--device", flags->device, "a100-80g, h100, h200, l40s or cpu")->required();
  plan->add_option("--models", flags->models,
                   "Instead of the spec's: NAME for all roles, or ROLE=NAME; NAME is e.g. "
                   "llama-70b, qwen2.5-7b or a Hugging Face directory")
      ->delimiter(',');
  plan->add_option("--placement", flags->placement,
                   "auto: the best of all; colocate: all roles share all devices; split: actor and "
                   "reference apart from the others; standalone: each role its own")
      ->capture_default_str();
  plan->add_option("--max-pp", flags->max_pipeline, "Most pipeline stages of a role; 0: any number")
      ->check(CLI::Range(0, 65536))
      ->capture_default_str();
  plan->add_option("--network", flags->network,
                   "Gbit/s between nodes, of a whole node; default: the catalogue's")
      ->check(CLI::Range(0.001, 1e6));
  plan->add_option("--devices-per-node", flags->devices_per_node, "Default: the catalogue's")
      ->check(CLI::Range(1, 1024));
  plan->add_option("--memory", flags->memory, "GB of a device; default: the catalogue's")
      ->check(CLI::Range(0.001, 1e6));
  plan->add_option("--top", flags->top, "Runners-up that are shown")
      ->check(CLI::Range(0, 10000))
      ->capture_default_str();
  plan->add_option("--set", flags->sets,
                   "Override a value of the spec: --set data.train_batch_size=512");
  plan->callback([=] { *code = RunPlan(*options, *flags); });
}

}  // namespace baton::cli
