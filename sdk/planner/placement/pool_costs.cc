#include "sdk/planner/placement/pool_costs.h"

#include <algorithm>
#include <limits>

#include "sdk/planner/placement/unbeaten.h"

namespace baton::placement {
namespace {

std::vector<int> RolesOf(uint32_t roles) {
  std::vector<int> out;
  for (int i = 0; i < 32; ++i) {
    if ((roles >> i & 1) != 0) out.push_back(i);
  }
  return out;
}

}  // namespace

uint32_t MaskOf(const std::vector<int>& roles) {
  uint32_t mask = 0;
  for (const int role : roles) mask |= uint32_t{1} << role;
  return mask;
}

double UsableBytes(const Problem& problem) {
  return problem.setting.device.memory_bytes * kUsableMemory;
}

RoleBytes BytesOf(const Problem& problem, const Role& role, const RankLayout& layout) {
  const Memory memory = role.trains ? TrainingMemory(problem.setting, role.model, layout)
                                    : ScoringMemory(problem.setting, role.model, layout);
  RoleBytes out{memory.resident(), role.trains || role.scores ? memory.activations : 0};
  if (role.generates) {
    out.transient = std::max(out.transient, GenerationMinimum(problem.setting, role.model, layout));
  }
  return out;
}

const std::vector<PoolCosts::Choice>& PoolCosts::Choices(int index, int devices) {
  const auto [at, isnew] = choices_.try_emplace({index, devices});
  if (!isnew) return at->second;
  const Role& role = problem_.roles[static_cast<size_t>(index)];
  std::vector<RankLayout> layouts;
  if (const auto fixed = fixed_.find(index); fixed != fixed_.end()) {
    if (fixed->second.world_size() == devices) layouts.push_back(fixed->second);
  } else {
    layouts = LayoutsOf(problem_, role, devices);
  }
  for (const RankLayout& layout : layouts) {
    if (!budget_->Spend(WorkBudget::kMade)) break;
    Choice choice;
    choice.layout = layout;
    choice.bytes = BytesOf(problem_, role, layout);
    if (role.trains) choice.training = TrainingSeconds(problem_.setting, role.model, layout);
    if (role.scores) choice.scoring = ScoringSeconds(problem_.setting, role.model, layout);
    at->second.push_back(choice);
  }
  if (!role.generates) {  // how long generation takes depends on the layout as well
    KeepUnbeaten(
        &at->second,
        [](const Choice& c) {
          return std::array<double, 4>{c.training, c.scoring, c.bytes.resident, c.bytes.transient};
        },
        budget_);
  }
  return at->second;
}

std::vector<PoolCosts::Partial> PoolCosts::Combine(uint32_t roles, int devices) {
  const double usable = UsableBytes(problem_);
  std::vector<Partial> partials(1);
  for (const int role : RolesOf(roles)) {
    if (problem_.roles[static_cast<size_t>(role)].generates) continue;
    std::vector<Partial> next;
    for (const Partial& partial : partials) {
      for (const Choice& choice : Choices(role, devices)) {
        if (!budget_->Spend(WorkBudget::kMade)) return {};
        Partial grown;
        grown.bytes = {partial.bytes.resident + choice.bytes.resident,
                       std::max(partial.bytes.transient, choice.bytes.transient)};
        if (grown.bytes.resident + grown.bytes.transient > usable) continue;
        grown.training = partial.training + choice.training;
        grown.scoring = partial.scoring + choice.scoring;
        grown.layouts = partial.layouts;
        grown.layouts.emplace_back(role, choice.layout);
        next.push_back(std::move(grown));
      }
    }
    KeepUnbeaten(
        &next,
        [](const Partial& p) {
          return std::array<double, 4>{p.training, p.scoring, p.bytes.resident, p.bytes.transient};
        },
        budget_);
    partials = std::move(next);
  }
  return partials;
}

void PoolCosts::AddGenerating(int index, int devices, const std::vector<Partial>& others,
                              std::vector<PoolOption>* out) {
  const Role& role = problem_.roles[static_cast<size_t>(index)];
  const double usable = UsableBytes(problem_);
  for (const Choice& choice : Choices(index, devices)) {
    for (const Partial& other : others) {
      if (!budget_->Spend(WorkBudget::kMade)) return;
      const double resident = other.bytes.resident + choice.bytes.resident;
      if (resident + std::max(other.bytes.transient, choice.bytes.transient) > usable) continue;
      const Generation generation =
          SimulateGeneration(problem_.setting, role.model, choice.layout, usable - resident);
      if (!generation.fits) continue;
      PoolOption option;
      option.stages = {generation.seconds, other.scoring + choice.scoring,
                       other.training + choice.training};
      bool placed = false;
      for (const auto& [at, layout] : other.layouts) {
        if (at > index && !std::exchange(placed, true)) option.layouts.push_back(choice.layout);
        option.layouts.push_back(layout);
      }
      if (!placed) option.layouts.push_back(choice.layout);
      out->push_back(std::move(option));
    }
  }
}

const std::vector<PoolOption>& PoolCosts::Options(uint32_t roles, int devices) {
  const auto [at, isnew] = options_.try_emplace({roles, devices});
  if (!isnew) return at->second;
  const std::vector<Partial> partials = Combine(roles, devices);
  bool generates = false;
  for (const int role : RolesOf(roles)) {
    if (!problem_.roles[static_cast<size_t>(role)].generates) continue;
    AddGenerating(role, devices, partials, &at->second);
    generates = true;
  }
  if (!generates) {
    for (const Partial& partial : partials) {
      PoolOption option;
      option.stages = {0, partial.scoring, partial.training};
      for (const auto& [role, layout] : partial.layouts) option.layouts.push_back(layout);
      at->second.push_back(std::move(option));
    }
  }
  KeepUnbeaten(
      &at->second, [](const PoolOption& o) { return o.stages; }, budget_);
  return at->second;
}

std::optional<double> PoolCosts::Shortage(uint32_t roles, int devices) {
  const auto [at, isnew] = shortages_.try_emplace({roles, devices});
  if (!isnew) return at->second;
  std::vector<RoleBytes> partials(1);
  for (const int role : RolesOf(roles)) {
    std::vector<RoleBytes> next;
    for (const RoleBytes& partial : partials) {
      for (const Choice& choice : Choices(role, devices)) {
        if (!budget_->Spend(WorkBudget::kMade)) return std::nullopt;
        next.push_back({partial.resident + choice.bytes.resident,
                        std::max(partial.transient, choice.bytes.transient)});
      }
    }
    KeepUnbeaten(
        &next,
        [](const RoleBytes& b) {
          return std::array<double, 2>{b.resident, b.transient};
        },
        budget_);
    partials = std::move(next);
  }
  if (partials.empty()) return std::nullopt;
  double least = std::numeric_limits<double>::infinity();
  for (const RoleBytes& bytes : partials) {
    least = std::min(least, bytes.resident + bytes.transient - UsableBytes(problem_));
  }
  at->second = std::max(0.0, least);
  return at->second;
}

}  // namespace baton::placement
