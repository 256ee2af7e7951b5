#include "sdk/planner/placement/search.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "sdk/planner/placement/explain.h"
#include "sdk/planner/placement/pool_costs.h"
#include "sdk/planner/placement/unbeaten.h"

namespace baton::placement {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Stages Longest(const Stages& a, const Stages& b) {
  Stages out;
  for (size_t i = 0; i < out.size(); ++i) out[i] = std::max(a[i], b[i]);
  return out;
}

// The best sizes and layouts of one partition, by branch and bound over its pools.
class PartitionSearch {
 public:
  PartitionSearch(const Problem& problem, const Restriction& restriction, PoolCosts* costs,
                  WorkBudget* budget, int64_t* plans)
      : problem_(problem),
        restriction_(restriction),
        costs_(costs),
        budget_(budget),
        plans_(plans) {}

  // Pools with devices and layouts; empty: nothing fits.
  std::vector<PoolPlan> Run(const Partition& partition) {
    pools_.clear();
    for (size_t i = 0; i < partition.size(); ++i) {
      pools_.push_back(MakePool(partition[i], i));
      if (pools_.back().entries.empty()) return {};
    }
    // Pools that need most come first: they leave the fewest ways for the others.
    std::stable_sort(pools_.begin(), pools_.end(), [](const Pool& a, const Pool& b) {
      return a.entries.front().devices > b.entries.front().devices;
    });
    best_ = kInfinity;
    picks_.assign(pools_.size(), nullptr);
    best_picks_.clear();
    Descend(0, Stages{}, problem_.devices);
    std::vector<PoolPlan> out(best_picks_.size());
    for (size_t i = 0; i < best_picks_.size(); ++i) out[pools_[i].at] = PlanOf(i);
    return out;
  }

 private:
  struct Entry {
    int devices = 0;
    Stages stages{};
    const PoolOption* option = nullptr;
  };
  struct Pool {
    size_t at = 0;  // in the partition
    std::vector<int> roles;
    std::vector<Entry> entries;   // ascending devices
    std::vector<Stages> at_best;  // of entries[0..i], the least of each stage
  };

  Pool MakePool(const std::vector<int>& roles, size_t at) {
    Pool pool;
    pool.at = at;
    pool.roles = roles;
    std::vector<int> sizes = PoolSizes(problem_.devices, problem_.setting.device.devices_per_node);
    if (at < restriction_.pools.size() && restriction_.pools[at].devices > 0) {
      sizes = {restriction_.pools[at].devices};
    }
    for (const int size : sizes) {
      for (const PoolOption& option : costs_->Options(MaskOf(roles), size)) {
        pool.entries.push_back({size, option.stages, &option});
      }
    }
    KeepUnbeaten(
        &pool.entries,
        [](const Entry& e) {
          return std::array<double, 4>{static_cast<double>(e.devices), e.stages[0], e.stages[1],
                                       e.stages[2]};
        },
        budget_);
    Stages least;
    least.fill(kInfinity);
    for (const Entry& entry : pool.entries) {
      for (size_t i = 0; i < least.size(); ++i) least[i] = std::min(least[i], entry.stages[i]);
      pool.at_best.push_back(least);
    }
    return pool;
  }

  // The least of each stage that a pool can have with so many devices; infinite: none.
  static Stages AtBest(const Pool& pool, int devices) {
    const auto end = std::upper_bound(pool.entries.begin(), pool.entries.end(), devices,
                                      [](int d, const Entry& e) { return d < e.devices; });
    if (end == pool.entries.begin()) {
      Stages none;
      none.fill(kInfinity);
      return none;
    }
    return pool.at_best[static_cast<size_t>(end - pool.entries.begin()) - 1];
  }

  // No way to fill pools from `next` on takes less than this.
  double Bound(size_t next, const Stages& so_far, int devices) const {
    int least = 0;
    for (size_t i = next; i < pools_.size(); ++i) least += pools_[i].entries.front().devices;
    if (least > devices) return kInfinity;
    Stages bound = so_far;
    for (size_t i = next; i < pools_.size(); ++i) {
      const int most = devices - least + pools_[i].entries.front().devices;
      bound = Longest(bound, AtBest(pools_[i], most));
    }
    return Total(bound);
  }

  void Descend(size_t next, const Stages& so_far, int devices) {
    ++*plans_;
    if (next == pools_.size()) {
      if (Total(so_far) < best_) {
        best_ = Total(so_far);
        best_picks_ = picks_;
      }
      return;
    }
    std::vector<std::pair<double, const Entry*>> ways;
    for (const Entry& entry : pools_[next].entries) {
      if (entry.devices > devices || !budget_->Spend(WorkBudget::kMade)) break;
      const double bound = Bound(next + 1, Longest(so_far, entry.stages), devices - entry.devices);
      if (bound < best_) ways.emplace_back(bound, &entry);
    }
    std::stable_sort(ways.begin(), ways.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [bound, entry] : ways) {
      if (bound >= best_) break;
      picks_[next] = entry;
      Descend(next + 1, Longest(so_far, entry->stages), devices - entry->devices);
    }
  }

  PoolPlan PlanOf(size_t i) const {
    PoolPlan plan;
    plan.devices = best_picks_[i]->devices;
    for (size_t r = 0; r < pools_[i].roles.size(); ++r) {
      RolePlan role;
      role.role = pools_[i].roles[r];
      role.layout = best_picks_[i]->option->layouts[r];
      plan.roles.push_back(role);
    }
    return plan;
  }

  const Problem& problem_;
  const Restriction& restriction_;
  PoolCosts* const costs_;
  WorkBudget* const budget_;
  int64_t* const plans_;
  std::vector<Pool> pools_;
  double best_ = kInfinity;
  std::vector<const Entry*> picks_, best_picks_;
};

absl::Status Check(const Problem& problem) {
  if (problem.roles.empty() || problem.roles.size() > 8) {
    return absl::InvalidArgumentError(
        absl::StrCat("roles: ", problem.roles.size(), " is not in [1, 8]"));
  }
  if (problem.devices < 1 || problem.devices > 65536) {
    return absl::InvalidArgumentError(
        absl::StrCat("devices: ", problem.devices, " is not in [1, 65536]"));
  }
  int generating = 0;
  for (const Role& role : problem.roles) {
    const std::string fault = Fault(role.model);
    if (!fault.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("model of role ", role.name, ": ", fault));
    }
    generating += role.generates ? 1 : 0;
  }
  if (generating > 1) return absl::InvalidArgumentError("only one role may generate");
  const Workload& w = problem.setting.workload;
  if (w.generated < 1 || w.sequences < 1 || w.prompt_tokens < 1 || w.response_tokens < 1 ||
      w.mini_batch < 1 || w.epochs < 1) {
    return absl::InvalidArgumentError("workload: every number must be at least 1");
  }
  return absl::OkStatus();
}

absl::Status TooMuchWork(const Problem& problem) {
  return absl::OutOfRangeError(
      absl::StrCat(problem.roles.size(), " roles on ", problem.devices,
                   " devices need a longer search than is allowed (", problem.max_work,
                   " comparisons); give fewer devices, or write resources.pools"));
}

absl::Status CheckLayout(const Problem& problem, const Role& role, int devices,
                         const RankLayout& layout) {
  const absl::Status valid = layout.Validate();
  if (!valid.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(role.name, ": ", valid.message()));
  }
  if (layout.world_size() != devices) {
    return absl::InvalidArgumentError(absl::StrCat(
        role.name, ": pp ", layout.pipeline, " x tp ", layout.tensor, " x dp ", layout.data,
        " are ", layout.world_size(), " ranks; its pool has ", devices, " devices"));
  }
  const auto fault = [&](const char* name, int size, const char* of, int64_t count) {
    return absl::InvalidArgumentError(absl::StrCat(
        role.name, ": ", name, " ", size, " does not divide the model's ", of, " (", count, ")"));
  };
  if (role.model.num_attention_heads % layout.tensor != 0) {
    return fault("tp", layout.tensor, "heads", role.model.num_attention_heads);
  }
  if (role.model.num_key_value_heads % layout.tensor != 0) {
    return fault("tp", layout.tensor, "key heads", role.model.num_key_value_heads);
  }
  if (role.model.num_hidden_layers % layout.pipeline != 0) {
    return fault("pp", layout.pipeline, "layers", role.model.num_hidden_layers);
  }
  const std::tuple<const char*, int, int> sizes[] = {
      {"pp", layout.pipeline, problem.max_pipeline},
      {"tp", layout.tensor, role.max_tensor},
      {"dp", layout.data, role.max_data},
      {"generation_tp", layout.generation_tensor, role.max_generation_tensor}};
  for (const auto& [name, size, most] : sizes) {
    if (most == 0 || size <= most) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(role.name, ": ", name, " ", size, " is above ", most));
  }
  return absl::OkStatus();
}

absl::Status Fill(const Problem& problem, PoolPlan* pool) {
  double resident = 0, transient = 0;
  for (RolePlan& r : pool->roles) {
    const Role& role = problem.roles[static_cast<size_t>(r.role)];
    const absl::Status status = CheckLayout(problem, role, pool->devices, r.layout);
    if (!status.ok()) return status;
    r.memory = role.trains ? TrainingMemory(problem.setting, role.model, r.layout)
                           : ScoringMemory(problem.setting, role.model, r.layout);
    if (role.trains) r.training = TrainingSeconds(problem.setting, role.model, r.layout);
    if (role.scores) r.scoring = ScoringSeconds(problem.setting, role.model, r.layout);
    const RoleBytes bytes = BytesOf(problem, role, r.layout);
    resident += bytes.resident;
    transient = std::max(transient, bytes.transient);
  }
  const double usable = UsableBytes(problem);
  if (resident + transient > usable) {
    return absl::ResourceExhaustedError(
        absl::StrFormat("%.1f GB a device are needed, %.1f GB are usable",
                        (resident + transient) / 1e9, usable / 1e9));
  }
  pool->stages = {};
  for (RolePlan& r : pool->roles) {
    const Role& role = problem.roles[static_cast<size_t>(r.role)];
    if (role.generates) {
      r.generation = SimulateGeneration(problem.setting, role.model, r.layout, usable - resident);
      if (!r.generation->fits) {
        return absl::ResourceExhaustedError("not one sequence fits beside the weights");
      }
      transient = std::max(transient, r.generation->extra_bytes + r.generation->kv_bytes);
      pool->stages[kGeneration] += r.generation->seconds;
    }
    pool->stages[kPreparation] += r.scoring;
    pool->stages[kTraining] += r.training;
  }
  pool->bytes = resident + transient;
  return absl::OkStatus();
}

void Grow(int role, int roles, Partition* partition, std::vector<Partition>* out) {
  if (role == roles) {
    out->push_back(*partition);
    return;
  }
  for (size_t i = 0; i < partition->size(); ++i) {
    (*partition)[i].push_back(role);
    Grow(role + 1, roles, partition, out);
    (*partition)[i].pop_back();
  }
  partition->push_back({role});
  Grow(role + 1, roles, partition, out);
  partition->pop_back();
}

}  // namespace

double Total(const Stages& stages) {
  return stages[kGeneration] + stages[kPreparation] + stages[kTraining];
}

int Plan::devices() const {
  int sum = 0;
  for (const PoolPlan& pool : pools) sum += pool.devices;
  return sum;
}

std::vector<int> PoolSizes(int devices, int devices_per_node) {
  std::vector<int> sizes;
  for (int size = 1; size < devices_per_node && size <= devices; size *= 2) sizes.push_back(size);
  int step = 1;
  for (int nodes = 1; nodes * devices_per_node <= devices; nodes += step) {
    sizes.push_back(nodes * devices_per_node);
    while (nodes >= 16 * step) step *= 2;
  }
  return sizes;
}

std::vector<RankLayout> LayoutsOf(const Problem& problem, const Role& role, int devices) {
  std::vector<RankLayout> out;
  const auto at_most = [&](int most) { return most > 0 ? std::min(most, devices) : devices; };
  const int most = at_most(problem.max_pipeline);
  const int within = std::min(at_most(role.max_tensor), problem.setting.device.devices_per_node);
  for (int tensor = 1; tensor <= within; ++tensor) {
    if (devices % tensor != 0 || role.model.num_attention_heads % tensor != 0 ||
        role.model.num_key_value_heads % tensor != 0) {
      continue;
    }
    for (int pipeline = 1; pipeline <= std::min(most, devices / tensor); ++pipeline) {
      if (devices / tensor % pipeline != 0 || role.model.num_hidden_layers % pipeline != 0)
        continue;
      RankLayout layout;
      layout.tensor = tensor;
      layout.pipeline = pipeline;
      layout.data = devices / tensor / pipeline;
      if (layout.data > at_most(role.max_data)) continue;
      const int slices = std::min(tensor, at_most(role.max_generation_tensor));
      for (int pg = 1; pg <= (role.generates ? pipeline : 1); ++pg) {
        for (int tg = 1; tg <= (role.generates ? slices : 1); ++tg) {
          if (pipeline % pg != 0 || tensor % tg != 0) continue;
          layout.generation_pipeline = pg;
          layout.generation_tensor = tg;
          out.push_back(layout);
        }
      }
    }
  }
  return out;
}

std::vector<Partition> AllPartitions(int roles) {
  std::vector<Partition> out;
  Partition partition;
  Grow(0, roles, &partition, &out);
  return out;
}

absl::StatusOr<Partition> NamedPartition(const std::string& name, const std::vector<Role>& roles) {
  Partition out;
  if (name == "colocate") {
    out.emplace_back();
    for (size_t i = 0; i < roles.size(); ++i) out[0].push_back(static_cast<int>(i));
  } else if (name == "standalone") {
    for (size_t i = 0; i < roles.size(); ++i) out.push_back({static_cast<int>(i)});
  } else if (name == "split") {
    std::vector<int> policy, others;
    for (size_t i = 0; i < roles.size(); ++i) {
      const bool first = roles[i].name == "actor" || roles[i].name == "reference";
      (first ? policy : others).push_back(static_cast<int>(i));
    }
    for (auto& pool : {policy, others}) {
      if (!pool.empty()) out.push_back(pool);
    }
    if (out.size() == 2 && out[1][0] < out[0][0]) std::swap(out[0], out[1]);
  } else {
    return absl::NotFoundError(absl::StrCat("no placement is called ", name));
  }
  return out;
}

absl::StatusOr<Plan> Evaluate(const Problem& problem, const std::vector<PoolPlan>& pools) {
  if (const absl::Status status = Check(problem); !status.ok()) return status;
  Plan plan;
  plan.pools = pools;
  for (PoolPlan& pool : plan.pools) {
    if (const absl::Status status = Fill(problem, &pool); !status.ok()) return status;
    plan.stages = Longest(plan.stages, pool.stages);
  }
  plan.seconds = Total(plan.stages);
  if (plan.devices() > problem.devices) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the pools have ", plan.devices(), " devices together; there are ", problem.devices));
  }
  return plan;
}

absl::StatusOr<SearchResult> Search(const Problem& problem, const Restriction& restriction) {
  if (const absl::Status status = Check(problem); !status.ok()) return status;
  std::vector<Partition> partitions = restriction.partitions;
  std::map<int, RankLayout> fixed;
  if (!restriction.pools.empty()) {
    partitions.assign(1, {});
    int64_t together = 0;
    for (const PoolRequest& pool : restriction.pools) {
      together += std::max(0, pool.devices);
      if (together > problem.devices) {
        return absl::InvalidArgumentError(absl::StrCat(
            "the pools have ", together, " devices or more; there are ", problem.devices));
      }
      partitions[0].push_back(pool.roles);
      for (size_t i = 0; i < pool.layouts.size() && i < pool.roles.size(); ++i) {
        if (!pool.layouts[i].has_value()) continue;
        const Role& role = problem.roles[static_cast<size_t>(pool.roles[i])];
        const absl::Status status = CheckLayout(
            problem, role, pool.devices > 0 ? pool.devices : pool.layouts[i]->world_size(),
            *pool.layouts[i]);
        if (!status.ok()) return status;
        fixed[pool.roles[i]] = *pool.layouts[i];
      }
    }
  }
  if (partitions.empty()) partitions = AllPartitions(static_cast<int>(problem.roles.size()));
  WorkBudget budget(problem.max_work);
  PoolCosts costs(problem, std::move(fixed), &budget);
  SearchResult result;
  PartitionSearch search(problem, restriction, &costs, &budget, &result.plans);
  for (Partition& partition : partitions) {
    Candidate candidate;
    const std::vector<PoolPlan> pools = search.Run(partition);
    if (budget.over()) return TooMuchWork(problem);
    candidate.partition = std::move(partition);
    if (!pools.empty()) {
      absl::StatusOr<Plan> plan = Evaluate(problem, pools);
      if (!plan.ok()) return plan.status();
      candidate.plan = *std::move(plan);
    }
    result.candidates.push_back(std::move(candidate));
  }
  // Among equally long plans, fewer devices come first, then fewer pools.
  std::stable_sort(result.candidates.begin(), result.candidates.end(),
                   [](const Candidate& a, const Candidate& b) {
                     const auto key = [](const Candidate& c) {
                       return std::make_tuple(c.plan ? c.plan->seconds : kInfinity,
                                              c.plan ? c.plan->devices() : 0, c.partition.size());
                     };
                     return key(a) < key(b);
                   });
  if (!result.candidates.front().plan.has_value()) {
    std::string why = ExplainNothingFits(problem, restriction, result, &costs);
    if (budget.over()) return TooMuchWork(problem);
    return absl::ResourceExhaustedError(std::move(why));
  }
  for (size_t i = 1; i < result.candidates.size(); ++i) {
    Candidate& candidate = result.candidates[i];
    candidate.why = candidate.plan.has_value()
                        ? ExplainSlower(result.best(), *candidate.plan)
                        : ExplainMisfit(problem, candidate.partition, &costs);
  }
  if (budget.over()) return TooMuchWork(problem);
  result.work = budget.spent();
  return result;
}

std::string PartitionText(const Problem& problem, const Partition& partition) {
  return absl::StrJoin(partition, " | ", [&](std::string* out, const std::vector<int>& pool) {
    absl::StrAppend(out, absl::StrJoin(pool, "+", [&](std::string* to, int role) {
                      absl::StrAppend(to, problem.roles[static_cast<size_t>(role)].name);
                    }));
  });
}

}  // namespace baton::placement
