// The cost of the roles of one pool on a number of devices: the part of the search below
// partitions.
#ifndef BATON_SDK_PLANNER_PLACEMENT_POOL_COSTS_H_
#define BATON_SDK_PLANNER_PLACEMENT_POOL_COSTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "sdk/planner/placement/search.h"
#include "sdk/planner/placement/unbeaten.h"

namespace baton::placement {

/// A way to lay out all roles of a pool.
struct PoolOption {
  Stages stages{};                  ///< Sums over the roles.
  std::vector<RankLayout> layouts;  ///< In the order of the roles.
};

/// Bytes of one role on a device: what stays, and what it needs beside that while it works.
struct RoleBytes {
  double resident = 0, transient = 0;
};
RoleBytes BytesOf(const Problem& problem, const Role& role, const RankLayout& layout);
double UsableBytes(const Problem& problem);
/// A set of roles: bit i for role i.
uint32_t MaskOf(const std::vector<int>& roles);

/// Answers are kept: a set of roles (bit i: role i) on n devices is worked out once.
class PoolCosts {
 public:
  /// `problem` and `budget` must outlive this. `fixed`: layouts that roles must have. Once the
  /// budget is over, answers mean nothing.
  PoolCosts(const Problem& problem, std::map<int, RankLayout> fixed, WorkBudget* budget)
      : problem_(problem), fixed_(std::move(fixed)), budget_(budget) {}

  /// The options that fit, without any that another equals or beats in every stage. Exact: an
  /// option that is left out earlier is no better in any stage nor in memory, and more memory never
  /// makes generation longer.
  const std::vector<PoolOption>& Options(uint32_t roles, int devices);
  /// Bytes that a device lacks at the least for all roles; 0: they fit. None: a role has no layout
  /// on so many devices.
  std::optional<double> Shortage(uint32_t roles, int devices);

 private:
  struct Choice {
    RankLayout layout;
    RoleBytes bytes;
    double training = 0, scoring = 0;
  };
  struct Partial {
    double training = 0, scoring = 0;
    RoleBytes bytes;  // sum of resident, largest transient
    std::vector<std::pair<int, RankLayout>> layouts;
  };

  const std::vector<Choice>& Choices(int role, int devices);
  std::vector<Partial> Combine(uint32_t roles, int devices);
  void AddGenerating(int role, int devices, const std::vector<Partial>& others,
                     std::vector<PoolOption>* out);

  const Problem& problem_;
  const std::map<int, RankLayout> fixed_;
  WorkBudget* const budget_;
  std::map<std::pair<int, int>, std::vector<Choice>> choices_;
  std::map<std::pair<uint32_t, int>, std::vector<PoolOption>> options_;
  std::map<std::pair<uint32_t, int>, std::optional<double>> shortages_;
};

}  // namespace baton::placement

#endif  // BATON_SDK_PLANNER_PLACEMENT_POOL_COSTS_H_
