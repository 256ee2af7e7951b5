// The search for which roles share which devices, and each role's layout: that of HybridFlow (arXiv
// 2409.19256 §6), exact over its space.
//
// The space: every partition of the roles into pools; for each pool a number of devices out of
// PoolSizes, together at most those there are (some may stay idle); for each role of a pool every
// layout p x t x d of its devices, and for the actor every generation layout that divides it. A
// plan fits when on every device the resident bytes of a pool's roles and the largest working set
// of one of them are within kUsableMemory. A stage (generation, preparation, training) takes the
// sum of its roles within a pool and the longest pool; an iteration is the sum of its stages.
//
// Pure and single-threaded. Results depend on the arguments alone.
#ifndef BATON_SDK_PLANNER_PLACEMENT_SEARCH_H_
#define BATON_SDK_PLANNER_PLACEMENT_SEARCH_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "sdk/planner/placement/simulators.h"

namespace baton::placement {

/// A model with a part in the iteration. At most one role of a problem generates.
struct Role {
  std::string name;
  PlannedModel model;
  bool generates = false;  ///< In stage generation, on its own ranks (hybrid engine).
  bool scores = false;     ///< One forward pass in stage preparation.
  bool trains = false;     ///< In stage training.
  // Most ranks of its layouts; 0: any number.
  int max_tensor = 0;
  int max_data = 0;
  int max_generation_tensor = 0;
};

struct Problem {
  std::vector<Role> roles;  ///< At most 8.
  Setting setting;
  int devices = 0;
  int max_pipeline = 0;  ///< Stages that a layout may have at most; 0: any number.
  int64_t max_work = 0;  ///< Bound of a search's work (WorkBudget); 0: anything.
};

enum Stage { kGeneration, kPreparation, kTraining, kStages };
/// Seconds of each stage.
using Stages = std::array<double, kStages>;
double Total(const Stages& stages);

struct RolePlan {
  int role = 0;  ///< Index into Problem::roles.
  RankLayout layout;
  Memory memory;
  double training = 0, scoring = 0;      ///< Seconds.
  std::optional<Generation> generation;  ///< For the role that generates.
};

struct PoolPlan {
  int devices = 0;
  std::vector<RolePlan> roles;
  Stages stages{};   ///< Sums over its roles.
  double bytes = 0;  ///< Most that is held on one device at a time, the KV cache included.
};

struct Plan {
  std::vector<PoolPlan> pools;
  Stages stages{};     ///< Longest pool of each.
  double seconds = 0;  ///< Length of an iteration.
  int devices() const;
};

/// Indices of roles, each pool and the pools in ascending order.
using Partition = std::vector<std::vector<int>>;

/// One partition, with the best plan it allows.
struct Candidate {
  Partition partition;
  std::optional<Plan> plan;  ///< nullopt: the partition does not fit.
  std::string why;           ///< Why the candidate was not chosen; "" for the chosen one.
};

/// A pool written by hand.
struct PoolRequest {
  std::vector<int> roles;                          ///< Ascending.
  int devices = 0;                                 ///< 0: as many as are best.
  std::vector<std::optional<RankLayout>> layouts;  ///< For each role; nullopt: the best.
};

struct Restriction {
  std::vector<Partition> partitions;  ///< Empty: all.
  std::vector<PoolRequest> pools;     ///< Not empty: this partition with these sizes and layouts.
};

struct SearchResult {
  /// Best first, then those that do not fit; the first is chosen.
  std::vector<Candidate> candidates;
  int64_t plans = 0;  ///< Whole plans and beginnings of plans that were looked at.
  int64_t work = 0;   ///< Work that was done, in units of Problem::max_work.

  const Plan& best() const { return *candidates.front().plan; }
};

/// Sizes that a pool may have: powers of two within a node, then nodes (all counts up to 16, every
/// second up to 32, every fourth up to 64 and so on).
std::vector<int> PoolSizes(int devices, int devices_per_node);

/// Layouts of a role on so many devices: t divides heads and key heads and stays within a node, p
/// divides layers; the role that generates has each with every p_g | p and t_g | t. None exceeds
/// what the problem and the role have at most.
std::vector<RankLayout> LayoutsOf(const Problem& problem, const Role& role, int devices);

/// Every partition of so many roles, in a fixed order: one pool first, all apart last.
std::vector<Partition> AllPartitions(int roles);

/// InvalidArgument: the problem makes no sense. ResourceExhausted: nothing fits; the message says
/// what the nearest plan lacks. OutOfRange: max_work was not enough. A problem that fits has its
/// cheapest plan first.
absl::StatusOr<SearchResult> Search(const Problem& problem, const Restriction& restriction = {});

/// The named ways of Baton: "colocate" (all on one pool), "split" (actor and reference; the rest),
/// "standalone" (each its own). NotFound for another name.
absl::StatusOr<Partition> NamedPartition(const std::string& name, const std::vector<Role>& roles);

/// The seconds and bytes of a plan whose pools have their devices and each role its layout, all
/// else worked out. ResourceExhausted where it does not fit.
absl::StatusOr<Plan> Evaluate(const Problem& problem, const std::vector<PoolPlan>& pools);

/// "actor+reference | critic+reward".
std::string PartitionText(const Problem& problem, const Partition& partition);

}  // namespace baton::placement

#endif  // BATON_SDK_PLANNER_PLACEMENT_SEARCH_H_
