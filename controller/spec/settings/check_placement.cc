#include "controller/spec/settings/check_placement.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/spec/dataflow/pools.h"
#include "controller/spec/dataflow/roles.h"
#include "sdk/common/messages/settings.h"
#include "sdk/common/parallel/rank_layout.h"

namespace baton::controller {
namespace {

// The bound of a field of resources, or of `parallel`.
template <class T>
int MostOf(int field) {
  return static_cast<int>(SettingOf<T>(field).max());
}

std::string DeviceNames() {
  return absl::StrJoin(SettingOf<v1::ResourcesSpec>(v1::ResourcesSpec::kDeviceFieldNumber).one_of(),
                       ", ");
}

class PlacementCheck {
 public:
  PlacementCheck(const v1::ResourcesSpec& resources, Violations* out)
      : resources_(resources), out_(*out) {}

  void Fail(const std::string& field, const std::string& description) {
    out_.Add(absl::StrCat("resources.", field), description);
  }

  void Named() {
    if (out_.Mentions("resources.placement")) return;
    const std::string& placement = resources_.placement();
    if (placement == "pools" && resources_.pools().empty()) {
      Fail("pools", "is missing; placement pools needs them (`baton plan -o yaml` prints some)");
    } else if (resources_.has_placement() && placement != "pools" && !resources_.pools().empty()) {
      Fail("pools", absl::StrCat("placement ", placement,
                                 " makes its own pools; remove them, or set placement to pools"));
    }
  }

  // Checks the settings that placement auto needs, and those that it chooses itself.
  void Auto(const v1::JobSpec& given, const v1::Dataflow& dataflow) {
    if (resources_.placement() != "auto") return;
    if (!resources_.has_devices()) {
      Fail("devices", "is missing; placement auto needs to know how many workers it may use");
    }
    if (!resources_.has_device()) {
      Fail("device",
           absl::StrCat("is missing; placement auto needs to know what a worker runs on: ",
                        DeviceNames()));
    }
    const auto chosen = [&](bool has, const std::string& field) {
      if (has) out_.Add(field, "placement auto chooses it; remove it, or write resources.pools");
    };
    for (const v1::UpdateNode& node : dataflow.update()) {
      const v1::ParallelSpec& parallel = TrainingOf(given, node.role()).parallel();
      chosen(parallel.has_tp() || parallel.has_dp(), TrainingPath(node.role()) + ".parallel");
    }
    chosen(given.rollout().has_tensor_model_parallel_size(), "rollout.tensor_model_parallel_size");
    chosen(resources_.has_rollout_workers(), "resources.rollout_workers");
    for (const char* role : {roles::kCost, roles::kReference, roles::kRewardModel}) {
      chosen(ScoringModelOf(given, role)->has_parallel(), ParallelPath(role) + ".parallel");
      chosen(resources_.role_workers().contains(role),
             absl::StrCat("resources.role_workers.", role));
    }
  }

  // Reports the parts of a valid layout that Baton's own engine does not run.
  void Served(const std::string& field, const std::string& role, const RankLayout& layout,
              bool generation) {
    const auto above = [&](const char* name, int size, int most, const std::string& why) {
      if (size > most) Fail(field, absl::StrCat(name, " ", size, ": ", why));
    };
    above("pp", layout.pipeline, 1, "Baton's engine has no pipeline stages; use tp and dp");
    const int most_tensor = MostOf<v1::ParallelSpec>(v1::ParallelSpec::kTpFieldNumber);
    const int most_data = MostOf<v1::ParallelSpec>(v1::ParallelSpec::kDpFieldNumber);
    if (ParallelPath(role).empty()) {
      above("tp", layout.tensor, 1,
            absl::StrCat("role ", role, " has no tensor-parallel ranks; use dp"));
    } else {
      above("tp", layout.tensor, most_tensor, absl::StrCat("is not in [1, ", most_tensor, "]"));
    }
    if (role != roles::kActor && generation) {
      Fail(field, "generation_tp and generation_pp are the actor's; remove them");
    }
    above("dp", layout.data, most_data, absl::StrCat("is not in [1, ", most_data, "]"));
  }

  void Layout(const std::string& field, const std::string& role, const v1::LayoutSpec& spec,
              int devices) {
    const auto or1 = [](bool given, int value) { return given ? value : 1; };
    RankLayout layout;
    layout.pipeline = or1(spec.has_pp(), spec.pp());
    layout.tensor = or1(spec.has_tp(), spec.tp());
    layout.data = or1(spec.has_dp(), spec.dp());
    layout.generation_pipeline = or1(spec.has_generation_pp(), spec.generation_pp());
    layout.generation_tensor = or1(spec.has_generation_tp(), spec.generation_tp());
    const int most = MostOf<v1::PoolSpec>(v1::PoolSpec::kDevicesFieldNumber);
    for (const int size : {layout.pipeline, layout.tensor, layout.data}) {
      if (size <= most) continue;
      return Fail(field, absl::StrCat(size, " is more than ", most));
    }
    const absl::Status valid = layout.Validate();
    if (!valid.ok()) return Fail(field, std::string(valid.message()));
    const int64_t ranks = int64_t{layout.pipeline} * layout.tensor * layout.data;
    if (devices > 0 && ranks != devices) {
      Fail(field,
           absl::StrCat("pp ", layout.pipeline, " x tp ", layout.tensor, " x dp ", layout.data,
                        " are ", ranks, " ranks; its pool has ", devices, " devices"));
    }
    Served(field, role, layout, spec.has_generation_tp() || spec.has_generation_pp());
  }

  void Pools(const std::set<std::string>& roles) {
    std::map<std::string, int> pool_of;
    int64_t sum = 0;
    for (int i = 0; i < resources_.pools_size(); ++i) {
      const v1::PoolSpec& pool = resources_.pools(i);
      const std::string path = absl::StrCat("pools[", i, "]");
      for (int r = 0; r < pool.roles_size(); ++r) {
        const std::string field = absl::StrCat(path, ".roles[", r, "]");
        if (roles.count(pool.roles(r)) == 0) {
          Fail(field, absl::StrCat("the job has no role '", pool.roles(r),
                                   "'; it has: ", absl::StrJoin(roles, ", ")));
        } else if (const auto [at, isnew] = pool_of.emplace(pool.roles(r), i); !isnew) {
          Fail(field, absl::StrCat(pool.roles(r), " is already in pools[", at->second, "]"));
        }
      }
      sum += std::max(0, pool.devices());
      const std::map<std::string, v1::LayoutSpec> layouts(pool.layouts().begin(),
                                                          pool.layouts().end());
      for (const auto& [role, layout] : layouts) {
        const std::string field = absl::StrCat(path, ".layouts.", role);
        if (std::count(pool.roles().begin(), pool.roles().end(), role) == 0) {
          Fail(field, absl::StrCat("is not a role of ", path));
        } else {
          Layout(field, role, layout, pool.devices());
        }
      }
    }
    if (resources_.pools().empty()) return;
    if (resources_.has_devices() && resources_.devices() >= 1 && sum > resources_.devices()) {
      Fail("pools", absl::StrCat("have ", sum, " devices together; resources.devices is ",
                                 resources_.devices()));
    }
  }

 private:
  const v1::ResourcesSpec& resources_;
  Violations& out_;
};

}  // namespace

void CheckPlacement(const v1::JobSpec& given, const v1::Dataflow& dataflow,
                    Violations* violations) {
  const std::vector<std::string> roles = RolesInOrder(given, dataflow);
  PlacementCheck check(given.resources(), violations);
  check.Named();
  check.Auto(given, dataflow);
  check.Pools({roles.begin(), roles.end()});
}

}  // namespace baton::controller
