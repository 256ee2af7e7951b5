#include "sdk/cli/plan/plan_print.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "sdk/cli/shared/table.h"
#include "sdk/planner/placement_spec/spec_problem.h"

namespace baton::cli {
namespace {

using placement::Plan;
using placement::PoolPlan;
using placement::RolePlan;

constexpr const char* kStageNames[] = {"generation", "preparation", "training"};

std::string Gigabytes(double bytes) {
  if (bytes == 0) return "-";
  if (bytes < 1e8) return absl::StrFormat("%.3f", bytes / 1e9);
  return absl::StrFormat("%.1f", bytes / 1e9);
}

std::string Seconds(double seconds) {
  if (seconds == 0) return "-";
  if (seconds >= 100) return absl::StrFormat("%.0f s", seconds);
  if (seconds >= 1) return absl::StrFormat("%.1f s", seconds);
  if (seconds >= 0.1) return absl::StrFormat("%.2f s", seconds);
  return absl::StrFormat("%.3g ms", seconds * 1e3);
}

std::string Billions(int64_t count) {
  const auto value = static_cast<double>(count);
  if (value >= 1e9) return absl::StrFormat("%.1fB", value / 1e9);
  if (value >= 1e6) return absl::StrFormat("%.1fM", value / 1e6);
  return absl::StrFormat("%.1fk", value / 1e3);
}

std::string LayoutText(const RankLayout& layout) {
  return absl::StrCat("pp", layout.pipeline, " tp", layout.tensor, " dp", layout.data);
}

std::string GenerationLayoutText(const RankLayout& layout) {
  return absl::StrCat(
      layout.generation_pipeline > 1 ? absl::StrCat("pp", layout.generation_pipeline, " ") : "",
      "tp", layout.generation_tensor);
}

std::string Question(const PlanReport& report) {
  const placement::Problem& problem = report.problem;
  const placement::Workload& w = problem.setting.workload;
  std::string out = absl::StrCat(
      "devices   ", problem.devices, " x ", problem.setting.device.name,
      absl::StrFormat(", %.0f GB each (%.0f GB usable), %d a node\n",
                      problem.setting.device.memory_bytes / 1e9,
                      problem.setting.device.memory_bytes / 1e9 * placement::kUsableMemory,
                      problem.setting.device.devices_per_node));
  absl::StrAppend(&out, "models    ",
                  absl::StrJoin(problem.roles, ", ",
                                [](std::string* to, const placement::Role& role) {
                                  absl::StrAppend(to, role.name, " ", role.model.name, " (",
                                                  Billions(placement::ParameterCount(role.model)),
                                                  ")");
                                }),
                  w.bytes > 2 ? ", float32" : ", bfloat16", "\n");
  absl::StrAppend(&out, "batch     ");
  if (w.generated != w.sequences) absl::StrAppend(&out, w.generated, " responses are generated; ");
  absl::StrAppend(&out, w.sequences, " sequences of ", w.prompt_tokens, " + ", w.response_tokens,
                  " tokens are trained on, in ", w.updates(), " update",
                  w.updates() == 1 ? "" : "s", "\n");
  return out;
}

std::string PoolTable(const placement::Problem& problem, const Plan& plan) {
  Table table({"POOL", "DEVICES", "ROLE", "LAYOUT", "GENERATES", "WEIGHTS", "GRADIENTS",
               "OPTIMIZER", "WORKING", "KV CACHE", "POOL'S PEAK"});
  for (size_t i = 0; i < plan.pools.size(); ++i) {
    const PoolPlan& pool = plan.pools[i];
    for (size_t r = 0; r < pool.roles.size(); ++r) {
      const RolePlan& role = pool.roles[r];
      const auto& generation = role.generation;
      table.Add({r == 0 ? absl::StrCat(i + 1) : "", r == 0 ? absl::StrCat(pool.devices) : "",
                 problem.roles[static_cast<size_t>(role.role)].name, LayoutText(role.layout),
                 generation ? GenerationLayoutText(role.layout) : "-",
                 Gigabytes(role.memory.weights), Gigabytes(role.memory.gradients),
                 Gigabytes(role.memory.optimizer), Gigabytes(role.memory.activations),
                 generation ? Gigabytes(generation->kv_bytes) : "-",
                 r == 0 ? Gigabytes(pool.bytes) : ""});
    }
  }
  return table.Format();
}

std::string StageTable(const placement::Problem& problem, const Plan& plan) {
  Table table({"STAGE", "TIME", "PARTS"});
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    std::vector<std::string> parts;
    for (size_t i = 0; i < plan.pools.size(); ++i) {
      std::vector<std::string> roles;
      for (const RolePlan& role : plan.pools[i].roles) {
        const double seconds = stage == placement::kGeneration
                                   ? (role.generation ? role.generation->seconds : 0)
                               : stage == placement::kPreparation ? role.scoring
                                                                  : role.training;
        if (seconds == 0) continue;
        roles.push_back(absl::StrCat(problem.roles[static_cast<size_t>(role.role)].name, " ",
                                     Seconds(seconds)));
      }
      if (roles.empty()) continue;
      parts.push_back(absl::StrCat(plan.pools.size() > 1 ? absl::StrCat("pool ", i + 1, ": ") : "",
                                   absl::StrJoin(roles, " + ")));
    }
    if (parts.empty()) continue;
    table.Add({kStageNames[stage], Seconds(plan.stages[stage]), absl::StrJoin(parts, "; ")});
  }
  table.Add({"iteration", Seconds(plan.seconds), ""});
  return table.Format();
}

std::string GenerationText(const Plan& plan) {
  for (const PoolPlan& pool : plan.pools) {
    for (const RolePlan& role : pool.roles) {
      if (!role.generation) continue;
      const placement::Generation& g = *role.generation;
      const int replicas = role.layout.data * role.layout.micro_data();
      return absl::StrCat(
          "generation: ", replicas, replicas == 1 ? " replica" : " replicas",
          absl::StrFormat(" of %.0f sequences at once", g.sequences),
          g.waves > 1 ? absl::StrCat(", ", g.waves, " times one after the other") : "",
          absl::StrFormat("; %.3g ms a token, prompts ", g.step_seconds * 1e3),
          Seconds(g.prefill_seconds), ", weights from training layout ",
          g.reshard_seconds == 0 ? "0 s" : Seconds(g.reshard_seconds), "\n");
    }
  }
  return "";
}

nlohmann::json StagesJson(const placement::Stages& stages) {
  nlohmann::json out = nlohmann::json::object();
  for (size_t i = 0; i < stages.size(); ++i) out[kStageNames[i]] = stages[i];
  return out;
}

nlohmann::json RoleJson(const placement::Problem& problem, const RolePlan& role) {
  nlohmann::json out = {
      {"role", problem.roles[static_cast<size_t>(role.role)].name},
      {"pp", role.layout.pipeline},
      {"tp", role.layout.tensor},
      {"dp", role.layout.data},
      {"training_seconds", role.training},
      {"scoring_seconds", role.scoring},
      {"weight_bytes", role.memory.weights},
      {"gradient_bytes", role.memory.gradients},
      {"optimizer_bytes", role.memory.optimizer},
      {"activation_bytes", role.memory.activations},
  };
  if (role.generation) {
    const placement::Generation& g = *role.generation;
    out["generation"] = {{"pp", role.layout.generation_pipeline},
                         {"tp", role.layout.generation_tensor},
                         {"replicas", role.layout.data * role.layout.micro_data()},
                         {"waves", g.waves},
                         {"sequences", g.sequences},
                         {"kv_bytes", g.kv_bytes},
                         {"seconds", g.seconds},
                         {"reshard_seconds", g.reshard_seconds},
                         {"prefill_seconds", g.prefill_seconds},
                         {"decode_seconds", g.decode_seconds}};
  }
  return out;
}

}  // namespace

std::string PlanAsText(const PlanReport& report) {
  const placement::Problem& problem = report.problem;
  const auto& candidates = report.result.candidates;
  const Plan& plan = report.result.best();
  const placement::Workload& w = problem.setting.workload;
  const int idle = problem.devices - plan.devices();
  std::string out = Question(report);
  absl::StrAppend(
      &out, "\nchosen    ", PartitionText(problem, candidates[0].partition), "\n          ",
      Seconds(plan.seconds), " an iteration, ",
      ShortNumber(static_cast<double>(w.generated) * w.tokens() / plan.seconds), " tokens/s",
      idle > 0 ? absl::StrCat("; ", idle, idle == 1 ? " device stays" : " devices stay", " idle")
               : "",
      "\n\npools, layouts and GB on one device\n", PoolTable(problem, plan), "\n",
      StageTable(problem, plan), GenerationText(plan));
  if (candidates.size() > 1) {
    Table table({"ITERATION", "PLACEMENT", "DEVICES", "WHY NOT"});
    size_t shown = 0;
    for (size_t i = 1; i < candidates.size() && shown < report.top; ++i, ++shown) {
      const placement::Candidate& other = candidates[i];
      std::vector<int> devices;
      if (other.plan) {
        for (const PoolPlan& pool : other.plan->pools) devices.push_back(pool.devices);
      }
      table.Add({other.plan ? Seconds(other.plan->seconds) : "-",
                 PartitionText(problem, other.partition),
                 devices.empty() ? "-" : absl::StrJoin(devices, "+"), other.why});
    }
    absl::StrAppend(&out, "\nrunners-up, each with the devices and layouts that are best for it\n",
                    table.Format());
    if (candidates.size() - 1 > shown) {
      absl::StrAppend(&out, "and ", candidates.size() - 1 - shown, " more; --top ",
                      candidates.size() - 1, " shows all\n");
    }
  }
  absl::StrAppend(&out, "\n");
  for (const std::string& note : report.notes) absl::StrAppend(&out, "note: ", note, "\n");
  absl::StrAppend(&out, candidates.size(), candidates.size() == 1 ? " placement" : " placements",
                  absl::StrFormat(" searched in %.3f s\n", report.search_seconds));
  return out;
}

std::string PlanAsJson(const PlanReport& report) {
  const placement::Problem& problem = report.problem;
  nlohmann::json candidates = nlohmann::json::array();
  for (const placement::Candidate& candidate : report.result.candidates) {
    if (candidates.size() > report.top) break;
    nlohmann::json entry = {{"placement", PartitionText(problem, candidate.partition)},
                            {"fits", candidate.plan.has_value()},
                            {"why_not", candidate.why}};
    if (candidate.plan) {
      entry["seconds"] = candidate.plan->seconds;
      entry["stages"] = StagesJson(candidate.plan->stages);
      entry["devices"] = candidate.plan->devices();
      for (const PoolPlan& pool : candidate.plan->pools) {
        nlohmann::json roles = nlohmann::json::array();
        for (const RolePlan& role : pool.roles) roles.push_back(RoleJson(problem, role));
        entry["pools"].push_back({{"devices", pool.devices},
                                  {"stages", StagesJson(pool.stages)},
                                  {"peak_bytes", pool.bytes},
                                  {"roles", roles}});
      }
    }
    candidates.push_back(std::move(entry));
  }
  nlohmann::json out = {{"device", problem.setting.device.name},
                        {"devices", problem.devices},
                        {"chosen", candidates[0]},
                        {"runners_up", nlohmann::json::array()},
                        {"notes", report.notes},
                        {"search_seconds", report.search_seconds}};
  for (size_t i = 1; i < candidates.size(); ++i) out["runners_up"].push_back(candidates[i]);
  return out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

v1::JobSpec PlanAsSpec(const PlanReport& report) {
  const placement::Problem& problem = report.problem;
  v1::JobSpec spec;
  v1::ResourcesSpec* resources = spec.mutable_resources();
  resources->set_devices(problem.devices);
  resources->set_device(problem.setting.device.name);
  placement::WritePools(problem, report.result.best(), resources);
  return spec;
}

}  // namespace baton::cli
