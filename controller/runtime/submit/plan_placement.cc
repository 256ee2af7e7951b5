#include "controller/runtime/submit/plan_placement.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/spec/settings/fill_pools.h"
#include "sdk/common/messages/violations.h"
#include "sdk/planner/placement/device_catalogue.h"
#include "sdk/planner/placement/search.h"
#include "sdk/planner/placement_spec/model_files.h"
#include "sdk/planner/placement_spec/spec_problem.h"

namespace baton::controller {
namespace {

// The work limit of one submit's search: a few seconds (docs/placement.md), because other submits
// wait meanwhile.
constexpr int64_t kMostPlanWork = 2'000'000'000;

absl::StatusOr<placement::PlannedModel> ReadModel(const std::string& role,
                                                  const v1::ModelSpec& model) {
  if (!model.path().empty()) return placement::ReadModelFile(model.path() + "/config.json");
  if (model.has_init()) return placement::ModelOfInit(model.init());
  return absl::InvalidArgumentError(absl::StrCat("role ", role, " has no model"));
}

// Turns the best plan into pools.
absl::StatusOr<v1::ResourcesSpec> ChoosePools(const v1::JobSpec& spec) {
  auto made = placement::ProblemOf(spec, ReadModel);
  if (!made.ok()) return made.status();
  placement::Problem& problem = made->problem;
  const placement::Device* device = placement::FindDevice(spec.resources().device());
  if (device == nullptr) return absl::InvalidArgumentError("resources.device is unknown");
  problem.setting.device = *device;
  problem.devices = spec.resources().devices();
  placement::KeepToRunnable(spec, &problem);
  problem.max_work = kMostPlanWork;
  const auto found = placement::Search(problem);
  if (!found.ok()) return found.status();
  v1::ResourcesSpec out = spec.resources();
  placement::WritePools(problem, found->best(), &out);
  return out;
}

}  // namespace

std::vector<v1::FieldViolation> PlanPlacement(const v1::JobSpec& given,
                                              const v1::Dataflow& dataflow,
                                              v1::JobSpec* effective) {
  if (given.resources().placement() != "auto") return {};
  Violations out;
  v1::JobSpec spec = *effective;
  if (spec.kind() == v1::JOB_KIND_RL) *spec.mutable_dataflow() = dataflow;
  const auto chosen = ChoosePools(spec);
  if (!chosen.ok()) {
    out.Add("resources.placement", absl::StrCat("auto: ", chosen.status().message()));
    return out.Take();
  }
  v1::JobSpec planned = given;  // as if the user had written the plan by hand
  planned.mutable_resources()->set_placement(chosen->placement());
  *planned.mutable_resources()->mutable_pools() = chosen->pools();
  FillPools(planned, dataflow, effective, &out);
  return out.Take();
}

std::string PlacementText(const v1::ResourcesSpec& resources) {
  return absl::StrJoin(resources.pools(), " | ", [](std::string* out, const v1::PoolSpec& pool) {
    absl::StrAppend(out, absl::StrJoin(pool.roles(), "+"), " ", pool.devices());
  });
}

}  // namespace baton::controller
