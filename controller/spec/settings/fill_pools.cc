#include "controller/spec/settings/fill_pools.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "controller/spec/dataflow/pools.h"
#include "controller/spec/dataflow/roles.h"
#include "sdk/common/messages/settings.h"

namespace baton::controller {
namespace {

// The bound of a number of workers.
int MostWorkers(int field) { return static_cast<int>(SettingOf<v1::ResourcesSpec>(field).max()); }

bool HasModel(const std::string& role) {
  static const auto* const roles = new std::set<std::string>{
      roles::kActor,       roles::kCritic, roles::kCostCritic, roles::kReference,
      roles::kRewardModel, roles::kCost,   roles::kJudge};
  return roles->count(role) > 0;
}

// The pools of a placement that has a name.
std::vector<v1::PoolSpec> PoolsOfName(const std::string& name,
                                      const std::vector<std::string>& roles) {
  std::map<int, v1::PoolSpec> pools;
  int next = 1;
  for (const std::string& role : roles) {
    const bool policy = role == roles::kRollout || role == roles::kActor;
    if (!policy && !HasModel(role)) continue;
    const int at = name == "colocate" || policy ? 0
                   : name == "split"            ? (role == roles::kReference ? 0 : 1)
                                                : next++;
    pools[at].add_roles(role);
  }
  std::vector<v1::PoolSpec> out;
  for (auto& [at, pool] : pools) out.push_back(std::move(pool));
  return out;
}

class PoolFiller {
 public:
  PoolFiller(const v1::JobSpec& given, const v1::Dataflow& dataflow, v1::JobSpec* effective,
             Violations* out)
      : given_(given), dataflow_(dataflow), effective_(effective), out_(*out) {
    for (const v1::UpdateNode& node : dataflow.update()) trained_.insert(node.role());
    roles_ = RolesInOrder(*effective, dataflow);
  }

  void Fill(std::vector<v1::PoolSpec> pools) {
    NameRollouts(&pools);
    v1::ResourcesSpec* resources = effective_->mutable_resources();
    resources->set_placement("pools");
    resources->clear_pools();
    for (const v1::PoolSpec& pool : pools) *resources->add_pools() = pool;
    for (int i = 0; i < resources->pools_size(); ++i) TakeLayouts(i);
    if (IsHybrid(*effective_, dataflow_)) CountRollouts();
    for (int i = 0; i < resources->pools_size(); ++i) {
      if (!resources->pools(i).roles().empty()) Size(i, resources->mutable_pools(i));
    }
    // Those of a job that only evaluates, whose roles it does not have.
    auto* all = resources->mutable_pools();
    all->erase(std::remove_if(all->begin(), all->end(),
                              [](const v1::PoolSpec& pool) { return pool.roles().empty(); }),
               all->end());
  }

 private:
  void Fail(const std::string& field, const std::string& description) {
    out_.Add(field, description);
  }
  static std::string PathOf(int pool) { return absl::StrCat("resources.pools[", pool, "]"); }

  void NameRollouts(std::vector<v1::PoolSpec>* pools) {
    if (effective_->kind() != v1::JOB_KIND_RL) return;
    v1::PoolSpec* of_actor = nullptr;
    for (v1::PoolSpec& pool : *pools) {
      for (const std::string& role : pool.roles()) {
        if (role == roles::kRollout) return;
        if (role == roles::kActor) of_actor = &pool;
      }
    }
    if (of_actor != nullptr) of_actor->add_roles(roles::kRollout);
  }

  // The user's number of workers for a role; nullopt: not given.
  std::optional<int> GivenWorkers(const std::string& role, std::string* field) const {
    const v1::ResourcesSpec& resources = given_.resources();
    if (role == roles::kRollout || role == roles::kReward) {
      *field = absl::StrCat("resources.", role, "_workers");
      const bool has = role == roles::kRollout ? resources.has_rollout_workers()
                                               : resources.has_reward_workers();
      if (!has) return std::nullopt;
      return role == roles::kRollout ? resources.rollout_workers() : resources.reward_workers();
    }
    const v1::ScoringModelSpec* scoring = ScoringModelOf(given_, role);
    if (scoring != nullptr && scoring->has_parallel()) {
      *field = ParallelPath(role) + ".parallel";
      return RanksOf(given_, role);
    }
    *field = absl::StrCat("resources.role_workers.", role);
    const auto at = resources.role_workers().find(role);
    if (at == resources.role_workers().end()) return std::nullopt;
    return at->second;
  }

  void SetWorkers(const std::string& role, int workers) {
    v1::ResourcesSpec* resources = effective_->mutable_resources();
    const int rollouts =
        std::min(workers, MostWorkers(v1::ResourcesSpec::kRolloutWorkersFieldNumber));
    const int scorers = std::min(workers, MostWorkers(v1::ResourcesSpec::kRoleWorkersFieldNumber));
    counted_.insert(role);
    if (role == roles::kRollout) {
      resources->set_rollout_workers(rollouts);
    } else if (role == roles::kReward) {
      resources->set_reward_workers(scorers);
    } else if (v1::ScoringModelSpec* scoring = MutableScoringModelOf(effective_, role)) {
      scoring->mutable_parallel()->set_tp(1);
      scoring->mutable_parallel()->set_dp(scorers);
    } else {
      (*resources->mutable_role_workers())[role] = scorers;
    }
  }

  // Compares `size` of a layout with another field of the spec.
  bool Agree(const std::string& layout, const std::string& what, int size, bool has, int other,
             const std::string& field) {
    if (!has || other == size) return true;
    Fail(layout, absl::StrCat(what, " is ", size, ", but spec.", field, " is ", other,
                              "; give one of the two"));
    return false;
  }

  bool AgreeShape(const std::string& field, const std::string& role, int tp, int dp,
                  const v1::ParallelSpec& other) {
    const std::string path = ParallelPath(role) + ".parallel";
    const bool agree = Agree(field, "tp", tp, other.has_tp(), other.tp(), path + ".tp");
    return Agree(field, "dp", dp, other.has_dp(), other.dp(), path + ".dp") && agree;
  }

  void TakeLayouts(int index) {
    const v1::PoolSpec& pool = effective_->resources().pools(index);
    const std::map<std::string, v1::LayoutSpec> layouts(pool.layouts().begin(),
                                                        pool.layouts().end());
    for (const auto& [role, layout] : layouts) {
      const std::string field = absl::StrCat(PathOf(index), ".layouts.", role);
      const int tp = std::max(layout.tp(), 1), dp = std::max(layout.dp(), 1);
      if (trained_.count(role) > 0) {
        const v1::ParallelSpec& other = TrainingOf(given_, role).parallel();
        if (!AgreeShape(field, role, tp, dp, other)) continue;
        v1::ParallelSpec* parallel = MutableTrainingOf(effective_, role)->mutable_parallel();
        parallel->set_tp(tp);
        parallel->set_dp(dp);
        if (role == roles::kActor && layout.has_generation_tp()) TakeGenerationTp(field, layout);
        continue;
      }
      v1::ScoringModelSpec* scoring = MutableScoringModelOf(effective_, role);
      if (scoring != nullptr &&
          !AgreeShape(field, role, tp, dp, ScoringModelOf(given_, role)->parallel())) {
        continue;
      }
      std::string path;
      const std::optional<int> other = GivenWorkers(role, &path);
      if (scoring != nullptr) {
        const bool counted = !ScoringModelOf(given_, role)->has_parallel() && other.has_value();
        if (!Agree(field, "tp x dp", tp * dp, counted, other.value_or(0), path)) continue;
        counted_.insert(role);
        scoring->mutable_parallel()->set_tp(tp);
        scoring->mutable_parallel()->set_dp(dp);
      } else if (Agree(field, "dp", dp, other.has_value(), other.value_or(0), path))
        SetWorkers(role, dp);
    }
  }

  void TakeGenerationTp(const std::string& field, const v1::LayoutSpec& layout) {
    const v1::RolloutSpec& rollout = given_.rollout();
    if (effective_->kind() != v1::JOB_KIND_RL) {
      if (layout.generation_tp() > 1) Fail(field, "generation_tp: only kind rl generates");
    } else if (Agree(field, "generation_tp", layout.generation_tp(),
                     rollout.has_tensor_model_parallel_size(), rollout.tensor_model_parallel_size(),
                     "rollout.tensor_model_parallel_size")) {
      effective_->mutable_rollout()->set_tensor_model_parallel_size(layout.generation_tp());
    }
  }

  // Rollouts on the actor's ranks.
  void CountRollouts() {
    const int ranks = WorkersOf(*effective_, dataflow_).at(roles::kRollout);
    const v1::ResourcesSpec& given = given_.resources();
    if (given.has_rollout_workers() && given.rollout_workers() != ranks) {
      Fail(
          "resources.rollout_workers",
          absl::StrCat("is ", given.rollout_workers(), ", but actor and rollouts share a pool, so ",
                       "they are replicas of the actor's ranks (", ranks, "); remove it"));
    }
    SetWorkers(roles::kRollout, ranks);
    const auto& pools = effective_->resources().pools();
    for (int i = 0; i < pools.size(); ++i) {
      const auto layout = pools.Get(i).layouts().find(roles::kRollout);
      if (layout == pools.Get(i).layouts().end() || std::max(layout->second.dp(), 1) == ranks) {
        continue;
      }
      Fail(PathOf(i) + ".layouts.rollout",
           absl::StrCat("the rollouts are the actor's ranks (", ranks, "); remove it"));
    }
  }

  // A layout spans its pool.
  void CheckLayouts(int index, const v1::PoolSpec& pool, int devices, const std::string& largest) {
    const std::map<std::string, v1::LayoutSpec> layouts(pool.layouts().begin(),
                                                        pool.layouts().end());
    for (const auto& [role, layout] : layouts) {
      const int ranks = std::max(layout.tp(), 1) * std::max(layout.dp(), 1);
      if (pool.has_devices() || ranks == devices) continue;  // CheckPlacement compares devices
      Fail(absl::StrCat(PathOf(index), ".layouts.", role),
           absl::StrCat(ranks, ranks == 1 ? " rank does" : " ranks do",
                        " not fill the pool, which has ", devices, " workers because of ", largest,
                        "; give ", role, " as many, or ", "set its number outside of layouts"));
    }
  }

  void Size(int index, v1::PoolSpec* pool) {
    std::map<std::string, int> sizes;  // of roles with a number of their own
    std::string unused, largest;
    for (const std::string& role : pool->roles()) {
      if (std::find(roles_.begin(), roles_.end(), role) == roles_.end()) continue;
      if (trained_.count(role) > 0 || counted_.count(role) > 0 || GivenWorkers(role, &unused)) {
        sizes[role] = WorkersOf(*effective_, dataflow_).at(role);
        if (largest.empty() || sizes[role] > sizes[largest]) largest = role;
      }
    }
    const int least = std::max(largest.empty() ? 1 : sizes[largest], 1);
    int devices = pool->has_devices() ? pool->devices() : least;
    if (devices < least) {
      Fail(PathOf(index) + ".devices",
           absl::StrCat(devices, " are too few: ", largest, " has ", least,
                        trained_.count(largest) > 0 ? " ranks" : " workers",
                        "; raise it, or remove it"));
    }
    CheckLayouts(index, *pool, devices, largest);
    for (const std::string& role : pool->roles()) {
      if (sizes.count(role) == 0) SetWorkers(role, devices);
    }
    const std::map<std::string, int> workers = WorkersOf(*effective_, dataflow_);
    int most = 0;
    for (const std::string& role : pool->roles()) {
      if (const auto at = workers.find(role); at != workers.end())
        most = std::max(most, at->second);
    }
    if (devices > most && effective_->trainer().val_only()) {
      devices = most;  // the role that had them all may be one that only training uses
    } else if (devices > most) {
      Fail(PathOf(index) + ".devices",
           absl::StrCat(devices, " are too many: none of its roles has more than ", most,
                        "; give layouts of ", devices, " ranks (`baton plan -o yaml` prints some),",
                        " or lower it"));
    }
    pool->set_devices(devices);
    for (const std::string& role : pool->roles()) {
      if (workers.count(role) > 0 && !ParallelPath(role).empty()) WriteLayout(role, pool);
    }
  }

  // A layout spans its pool; a role that leaves some of it idle has only its `parallel`.
  void WriteLayout(const std::string& role, v1::PoolSpec* pool) {
    if (RanksOf(*effective_, role) != pool->devices()) return;
    const GroupShape shape = ShapeOf(*effective_, role);
    v1::LayoutSpec& layout = (*pool->mutable_layouts())[role];
    layout.set_tp(shape.tp);
    layout.set_dp(shape.dp);
    const auto& roles = pool->roles();
    if (role == roles::kActor &&
        std::find(roles.begin(), roles.end(), roles::kRollout) != roles.end()) {
      layout.set_generation_tp(GenerationTp(*effective_));
    }
  }

  const v1::JobSpec& given_;
  const v1::Dataflow& dataflow_;
  v1::JobSpec* const effective_;
  Violations& out_;
  std::set<std::string> trained_;
  std::vector<std::string> roles_;
  std::set<std::string> counted_;  // by a layout, or as the actor's ranks
};

}  // namespace

void FillPools(const v1::JobSpec& given, const v1::Dataflow& dataflow, v1::JobSpec* effective,
               Violations* violations) {
  const v1::ResourcesSpec& resources = given.resources();
  std::vector<v1::PoolSpec> pools(resources.pools().begin(), resources.pools().end());
  const std::string& name = resources.placement();
  if (name == "colocate" || name == "split" || name == "standalone") {
    pools = PoolsOfName(name, RolesInOrder(*effective, dataflow));
  }
  if (pools.empty()) return;
  PoolFiller(given, dataflow, effective, violations).Fill(std::move(pools));
}

void CheckGenerationTp(const v1::JobSpec& effective, const v1::Dataflow& dataflow,
                       Violations* violations) {
  const int size = GenerationTp(effective), tp = ShapeOf(effective, roles::kActor).tp;
  if (size == 1) return;
  std::string problem;
  if (!IsHybrid(effective, dataflow)) {
    problem = absl::StrCat("is ", size, ", for which actor and rollouts have to share their ",
                           "workers (resources.placement: colocate); set 1");
  } else if (tp % size != 0) {
    problem = absl::StrCat(size, " does not divide actor.parallel.tp (", tp, "); set 1");
  } else {
    return;
  }
  violations->Add("rollout.tensor_model_parallel_size", problem);
}

}  // namespace baton::controller
