// plan: where a job's roles would best run, worked out on this machine alone.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "sdk/cli/plan/commands.h"
#include "sdk/cli/plan/plan_print.h"
#include "sdk/cli/plan/plan_problem.h"
#include "sdk/cli/plan/plan_timings.h"
#include "sdk/cli/shared/home_paths.h"
#include "sdk/cli/shared/options.h"
#include "sdk/client/spec_writer.h"
#include "sdk/client/spec_yaml.h"
#include "sdk/common/base/nearest.h"

namespace baton::cli {
namespace {

// Pipeline stages that are planned with unless --max-pp says otherwise.
constexpr int kMostStages = 4;

struct PlanFlags {
  std::string file;
  std::vector<std::string> sets, models;
  std::string device, job, timings;
  int devices = 0;
  int devices_per_node = 0;
  double network = 0;
  double memory = 0;
  std::optional<int> max_pipeline;
  std::string space;
  int top = 5;
  std::string placement;
};

// "; did you mean 'a100-80g'?" for "a100".
std::string MeantOrKnown(const std::string& given, const std::vector<std::string>& known) {
  for (const std::string& name : known) {
    if (!given.empty() && absl::StartsWith(name, given)) {
      return absl::StrCat("; did you mean '", name, "'?");
    }
  }
  const std::string* nearest = Nearest(given, known);
  return nearest != nullptr ? absl::StrCat("; did you mean '", *nearest, "'?")
                            : absl::StrCat("; it is one of: ", absl::StrJoin(known, ", "));
}

absl::StatusOr<placement::Device> ChooseDevice(const PlanFlags& flags, const v1::JobSpec& spec) {
  const bool flag = !flags.device.empty();
  const std::string where = flag ? "--device" : "resources.device";
  const std::string name = absl::AsciiStrToLower(flag ? flags.device : spec.resources().device());
  std::vector<std::string> names;
  for (const placement::Device& device : placement::KnownDevices()) names.push_back(device.name);
  if (name.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("which devices? Give --device, or `resources: {device: …}` in the spec: ",
                     absl::StrJoin(names, ", ")));
  }
  const placement::Device* known = placement::FindDevice(name);
  if (known == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        where, ": there is no device '", name, "' in the catalogue", MeantOrKnown(name, names)));
  }
  placement::Device device = *known;
  if (flags.devices_per_node > 0) device.devices_per_node = flags.devices_per_node;
  if (flags.network > 0) device.network_bandwidth = flags.network * 1e9 / 8;
  if (flags.memory > 0) device.memory_bytes = flags.memory * 1e9;
  return device;
}

std::optional<RankLayout> LayoutOf(const v1::PoolSpec& pool, const std::string& role) {
  const auto at = pool.layouts().find(role);
  if (at == pool.layouts().end()) return std::nullopt;
  const v1::LayoutSpec& spec = at->second;
  RankLayout layout;
  if (spec.has_pp()) layout.pipeline = spec.pp();
  if (spec.has_tp()) layout.tensor = spec.tp();
  if (spec.has_dp()) layout.data = spec.dp();
  if (spec.has_generation_pp()) layout.generation_pipeline = spec.generation_pp();
  if (spec.has_generation_tp()) layout.generation_tensor = spec.generation_tp();
  return layout;
}

// Workers of its own, as many as the spec says.
placement::PoolRequest OnItsOwn(const v1::JobSpec& spec, const std::string& role, int index) {
  const v1::ParallelSpec& parallel = role == "critic"        ? spec.critic().train().parallel()
                                     : role == "cost_critic" ? spec.cost_critic().train().parallel()
                                     : role == "reference"   ? spec.reference().parallel()
                                     : role == "reward_model" ? spec.reward_model().parallel()
                                     : role == "cost"         ? spec.cost_model().parallel()
                                                              : spec.actor().parallel();
  RankLayout layout;
  layout.tensor = std::max(1, parallel.tp());
  layout.data = std::max(1, parallel.dp());
  const auto workers = spec.resources().role_workers().find(role);
  if (workers != spec.resources().role_workers().end()) {
    layout.data = std::max(1, workers->second / layout.tensor);
  }
  placement::PoolRequest out;
  out.roles = {index};
  out.devices = layout.world_size();
  out.layouts = {layout};
  return out;
}

// The pools that the spec has, of roles that are planned; others are on their own.
absl::StatusOr<placement::Restriction> PoolsByHand(const v1::JobSpec& spec,
                                                   const placement::Problem& problem) {
  const v1::ResourcesSpec& resources = spec.resources();
  v1::JobSpec trained = spec;  // pools of a training may name roles that an evaluation lacks
  trained.mutable_trainer()->clear_val_only();
  std::set<std::string> roles = placement::AllRoles(trained);
  roles.insert({"reward", "rollout"});
  placement::Restriction out;
  std::set<int> placed;
  for (int i = 0; i < resources.pools_size(); ++i) {
    const v1::PoolSpec& pool = resources.pools(i);
    placement::PoolRequest request;
    request.devices = pool.devices();
    for (size_t r = 0; r < problem.roles.size(); ++r) {
      const std::string& name = problem.roles[r].name;
      if (std::count(pool.roles().begin(), pool.roles().end(), name) == 0) continue;
      if (!placed.insert(static_cast<int>(r)).second) {
        return absl::InvalidArgumentError(
            absl::StrCat("resources.pools[", i, "].roles: ", name, " is in another pool as well"));
      }
      request.roles.push_back(static_cast<int>(r));
      request.layouts.push_back(LayoutOf(pool, name));
    }
    for (const std::string& name : pool.roles()) {
      if (roles.count(name) > 0) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("resources.pools[", i, "].roles: '", name,
                       "' is not a role of the job; it has: ", absl::StrJoin(roles, ", ")));
    }
    if (!request.roles.empty()) out.pools.push_back(std::move(request));
  }
  for (size_t r = 0; r < problem.roles.size(); ++r) {
    const int index = static_cast<int>(r);
    if (placed.count(index) == 0) out.pools.push_back(OnItsOwn(spec, problem.roles[r].name, index));
  }
  return out;
}

// The differences between the plan and the spec's own settings.
void AddNotesOfSpec(const PlanFlags& flags, const v1::JobSpec& spec,
                    std::vector<std::string>* notes) {
  if (flags.file.empty()) return;
  const v1::ResourcesSpec& resources = spec.resources();
  const std::string& name = resources.placement();
  if (name.empty() && resources.pools().empty()) {
    notes->push_back(
        "the spec has no placement, so each role gets workers of its own; -o yaml prints the "
        "`resources` that make this plan so");
  } else if (name == "colocate" || name == "split" || name == "standalone") {
    notes->push_back(absl::StrCat("placement ", name,
                                  " takes layouts from each role's `parallel`; "
                                  "-o yaml prints the `resources` that make this plan so"));
  }
  for (const v1::PoolSpec& pool : resources.pools()) {
    const bool actor = std::count(pool.roles().begin(), pool.roles().end(), "actor") > 0;
    const bool rollout = std::count(pool.roles().begin(), pool.roles().end(), "rollout") > 0;
    if (!rollout || actor) continue;
    notes->push_back("rollouts are planned on the actor's ranks, though the spec keeps them apart");
  }
}

absl::StatusOr<placement::Restriction> Restrict(const PlanFlags& flags, const v1::JobSpec& spec,
                                                const placement::Problem& problem) {
  const v1::ResourcesSpec& resources = spec.resources();
  std::string name = flags.placement;
  const std::string where = name.empty() ? "resources.placement" : "--placement";
  if (name.empty()) name = resources.placement();
  if (name.empty()) name = resources.pools().empty() ? "auto" : "pools";
  if (name == "pools" && !resources.pools().empty()) return PoolsByHand(spec, problem);
  if (name == "pools") {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": the spec has no `resources.pools`; `-o yaml` prints some"));
  }
  placement::Restriction restriction;
  if (name == "auto") return restriction;
  auto partition = placement::NamedPartition(name, problem.roles);
  if (!partition.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": there is no '", name, "'",
                     MeantOrKnown(name, {"auto", "colocate", "split", "standalone", "pools"})));
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

// The calibration that the flags ask for: factors and a sentence; nothing without such flags.
absl::Status CalibrateBy(const GlobalOptions& options, const PlanFlags& flags,
                         const PlanInput& input, placement::SpecProblem* made) {
  if (flags.job.empty() && flags.timings.empty()) return absl::OkStatus();
  absl::StatusOr<v1::ListMetricsResponse> steps;
  PlanInput recorded = input;
  if (!flags.job.empty()) {
    auto client = MakeClient(options);
    const auto job = client->GetJob(flags.job);
    if (!job.ok()) return job.status();
    recorded.spec = job->effective_spec();
    recorded.folder.clear();
    v1::ListMetricsRequest request;
    request.set_name(flags.job);
    steps = client->ListMetrics(request);
    if (!steps.ok()) return steps.status();
  } else {
    const auto text = ReadText(flags.timings);
    if (!text.ok()) return text.status();
    steps = ParseTimings(*text);
    if (!steps.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(flags.timings, ": ", steps.status().message()));
    }
  }
  const auto job = MakePlanProblem(recorded);
  if (!job.ok()) return job.status();
  const auto& roles = job->problem.roles;
  placement::Workload workload = job->problem.setting.workload;
  placement::ComputeAsOwnWorkers(recorded.spec, &workload);  // these made the steps
  const auto recording = MakeRecording(recorded.spec, *steps, workload, roles[0].model);
  if (!recording.ok()) return recording.status();
  placement::Setting& setting = made->problem.setting;
  setting.calibration = placement::Calibrate(setting.device, *recording);
  made->notes.push_back(absl::StrFormat(
      "calibrated by %d steps of %s, of %d training rank%s and %d rollout%s: training and scoring "
      "take %.3g times the roofline, generation %.3g times",
      steps->steps_size(), flags.job.empty() ? flags.timings : flags.job,
      recording->training.world_size(), recording->training.world_size() == 1 ? "" : "s",
      recording->rollouts.data, recording->rollouts.data == 1 ? "" : "s",
      setting.calibration.training, setting.calibration.generation));
  return absl::OkStatus();
}

void AddNotes(const placement::Plan& plan, placement::SpecProblem* made) {
  for (const placement::PoolPlan& pool : plan.pools) {
    for (const placement::RolePlan& role : pool.roles) {
      if (role.layout.pipeline == 1) continue;
      made->notes.push_back(
          "Baton's own engine has no pipeline stages; --space runnable plans without them");
      return;
    }
  }
}

// Chooses the space of layouts.
absl::Status ChooseSpace(const PlanFlags& flags, const v1::JobSpec& spec,
                         placement::Problem* problem) {
  const std::string space = !flags.space.empty() ? flags.space
                            : flags.file.empty() ? "full"
                                                 : "runnable";
  problem->max_pipeline = flags.max_pipeline.value_or(kMostStages);
  if (space == "full") return absl::OkStatus();
  if (flags.max_pipeline.value_or(1) != 1) {
    return absl::InvalidArgumentError(
        "--max-pp: Baton's own engine has no pipeline stages; add --space full");
  }
  placement::KeepToRunnable(spec, problem);
  return absl::OkStatus();
}

int RunPlan(const GlobalOptions& options, const PlanFlags& flags) {
  const absl::StatusOr<std::string> text =
      flags.file.empty() ? absl::StatusOr<std::string>(kDefaultPlanSpec) : ReadText(flags.file);
  if (!text.ok()) return Fail(options, text.status());
  ParsedSpec parsed = ParseSpecYaml(*text, flags.sets);
  if (!parsed.problems.empty()) {
    std::fprintf(stderr, "baton: the spec has %zu problem%s\n%s", parsed.problems.size(),
                 parsed.problems.size() == 1 ? "" : "s",
                 FormatProblems(flags.file, parsed.problems).c_str());
    return kUsage;
  }
  ExpandHomes(&parsed.spec);
  const PlanInput input{parsed.spec, std::filesystem::path(flags.file).parent_path().string(),
                        flags.models};
  auto made = MakePlanProblem(input);
  if (!made.ok()) return Fail(options, made.status());
  placement::Problem& problem = made->problem;
  auto device = ChooseDevice(flags, parsed.spec);
  if (!device.ok()) return Fail(options, device.status());
  problem.setting.device = *std::move(device);
  problem.devices = flags.devices > 0 ? flags.devices : parsed.spec.resources().devices();
  if (problem.devices == 0) {
    return Fail(options, absl::InvalidArgumentError("how many devices? Give --devices, or "
                                                    "`resources: {devices: …}` in the spec"));
  }
  const absl::Status space = ChooseSpace(flags, parsed.spec, &problem);
  if (!space.ok()) return Fail(options, space);
  const auto restriction = Restrict(flags, parsed.spec, problem);
  if (!restriction.ok()) return Fail(options, restriction.status());
  const absl::Status calibrated = CalibrateBy(options, flags, input, &*made);
  if (!calibrated.ok()) return Fail(options, calibrated);

  const auto start = std::chrono::steady_clock::now();
  const auto result = placement::Search(problem, *restriction);
  if (!result.ok()) return Fail(options, result.status());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  AddNotes(result->best(), &*made);
  AddNotesOfSpec(flags, parsed.spec, &made->notes);
  const PlanReport report{problem, *result, made->notes, static_cast<size_t>(flags.top),
                          took.count()};
  std::printf("%s", options.json()             ? PlanAsJson(report).c_str()
                    : options.output == "yaml" ? SpecToYaml(PlanAsSpec(report)).c_str()
                                               : PlanAsText(report).c_str());
  return kOk;
}

}  // namespace

void AddPlanCommand(CLI::App& app, GlobalOptions* options, int* code) {
  auto* plan = app.add_subcommand(
      "plan",
      "Work out where a job's roles would best run: pools, layouts, memory, seconds\n"
      "e.g. baton plan job.yaml --devices 64 --device h100\n"
      "     baton plan --models llama-70b --devices 128 --device a100-80g\n"
      "Needs no controller (but for --calibrate) and changes nothing. docs/placement.md has the "
      "formulas.");
  plan->add_option("-o,--output", options->output,
                   "text, json, or yaml: the plan as `resources` to put into the spec")
      ->check(CLI::IsMember({"text", "json", "yaml"}))
      ->capture_default_str();
  auto flags = std::make_shared<PlanFlags>();
  plan->add_option("file", flags->file,
                   "The spec, e.g. job.yaml; without one: PPO with four models, 1024 responses");
  plan->add_option("--devices", flags->devices,
                   "How many there are; default: the spec's resources.devices")
      ->check(CLI::Range(1, 65536));
  plan->add_option("--device", flags->device,
                   "a100-80g, h100, h200, l40s or cpu; default: the spec's resources.device");
  plan->add_option("--models", flags->models,
                   "Instead of the spec's: NAME for all roles, or ROLE=NAME; NAME is e.g. "
                   "llama-70b, qwen2.5-7b or a Hugging Face directory")
      ->delimiter(',')
      ->allow_extra_args(false);
  plan->add_option("--placement", flags->placement,
                   "auto: the best of all; colocate: all roles share all devices; split: actor and "
                   "reference apart from the others; standalone: each role its own; pools: the "
                   "spec's resources.pools. Default: the spec's resources.placement, or auto");
  plan->add_option("--space", flags->space,
                   "runnable: layouts that Baton runs, as placement auto chooses them at submit; "
                   "full: also pipeline stages, tensor ranks of every role and of generation. "
                   "Default: runnable with a spec, full without")
      ->check(CLI::IsMember({"runnable", "full"}));
  plan->add_option(
          "--max-pp", flags->max_pipeline,
          "The most pipeline stages of a role; 0: any number. Default: 4 with --space full")
      ->check(CLI::Range(0, 65536));
  plan->add_option("--network", flags->network,
                   "Gbit/s between nodes, of a whole node; default: the catalogue's")
      ->check(CLI::Range(0.001, 1e6));
  plan->add_option("--devices-per-node", flags->devices_per_node, "Default: the catalogue's")
      ->check(CLI::Range(1, 1024));
  plan->add_option("--memory", flags->memory, "GB of a device; default: the catalogue's")
      ->check(CLI::Range(0.001, 1e6));
  plan->add_option("--calibrate", flags->job,
                   "A job that ran on this kind of device: its times scale the rooflines");
  plan->add_option("--timings", flags->timings,
                   "The same from a file, as `baton metrics JOB -o json` prints it, of a job of "
                   "this spec")
      ->excludes("--calibrate");
  plan->add_option("--top", flags->top, "How many runners-up to show")
      ->check(CLI::Range(0, 10000))
      ->capture_default_str();
  plan->add_option("--set", flags->sets,
                   "Override a value of the spec: --set data.train_batch_size=512")
      ->allow_extra_args(false);
  plan->callback([=] { *code = RunPlan(*options, *flags); });
}

}  // namespace baton::cli
