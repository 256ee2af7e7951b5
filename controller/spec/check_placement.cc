#include "controller/spec/check_placement.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/spec/pools.h"
#include "controller/spec/roles.h"
#include "sdk/parallel/rank_layout.h"
#include "sdk/placement/device_catalogue.h"

namespace baton::controller {
namespace {

constexpr int kMostDevices = 65536;
// Bounds of actor.parallel, and of the number of workers of a role.
constexpr int kMostTensor = 64;
constexpr int kMostData = 1024;

std::string DeviceNames() {
  return absl::StrJoin(placement::KnownDevices(), ", ",
                       [](std::string* to, const auto& device) { to->append(device.name); });
}

class PlacementCheck {
 public:
  PlacementCheck(const v1::ResourcesSpec& resources, std::vector<v1::FieldViolation>* out)
      : resources_(resources), out_(out) {}

  void Fail(const std::string& field, const std::string& description) {
    FailAt(absl::StrCat("resources.", field), description);
  }

  void FailAt(const std::string& field, const std::string& description) {
    v1::FieldViolation violation;
    violation.set_field(absl::StrCat("spec.", field));
    violation.set_description(description);
    out_->push_back(std::move(violation));
  }

  void Devices(const std::string& field, int devices) {
    if (devices >= 1 && devices <= kMostDevices) return;
    Fail(field, absl::StrCat(devices, " is not in [1, ", kMostDevices, "]"));
  }

  void Scalars() {
    const std::set<std::string> placements = {"auto", "colocate", "split", "standalone", "pools"};
    const std::string& placement = resources_.placement();
    if (resources_.has_placement() && placements.count(placement) == 0) {
      Fail("placement",
           absl::StrCat("'", placement, "' is not one of: ", absl::StrJoin(placements, ", ")));
    } else if (placement == "pools" && resources_.pools().empty()) {
      Fail("pools", "is missing; placement pools needs them (`baton plan -o yaml` prints some)");
    } else if (resources_.has_placement() && placement != "pools" && !resources_.pools().empty()) {
      Fail("pools", absl::StrCat("placement ", placement,
                                 " makes its own pools; remove them, or set placement to pools"));
    }
    if (resources_.has_devices()) Devices("devices", resources_.devices());
    if (resources_.has_device() && placement::FindDevice(resources_.device()) == nullptr) {
      Fail("device", absl::StrCat("'", resources_.device(), "' is not one of: ", DeviceNames()));
    }
  }

  // What placement auto needs, and what it chooses itself.
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
      if (has) FailAt(field, "placement auto chooses it; remove it, or write resources.pools");
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

  // What of a sound layout Baton's own engine does not run.
  void Served(const std::string& field, const std::string& role, const RankLayout& layout,
              bool generation) {
    const auto above = [&](const char* name, int size, int most, const std::string& why) {
      if (size > most) Fail(field, absl::StrCat(name, " ", size, ": ", why));
    };
    above("pp", layout.pipeline, 1, "Baton's engine has no pipeline stages; use tp and dp");
    const int most = ParallelPath(role).empty() ? 1 : kMostTensor;
    above("tp", layout.tensor, most,
          most == 1 ? absl::StrCat("role ", role, " has no tensor-parallel ranks; use dp")
                    : absl::StrCat("is not in [1, ", kMostTensor, "]"));
    if (role != roles::kActor && generation) {
      Fail(field, "generation_tp and generation_pp are the actor's; remove them");
    }
    above("dp", layout.data, kMostData, absl::StrCat("is not in [1, ", kMostData, "]"));
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
    for (const int size : {layout.pipeline, layout.tensor, layout.data}) {
      if (size <= kMostDevices) continue;
      return Fail(field, absl::StrCat(size, " is more than ", kMostDevices));
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
      if (pool.roles().empty()) Fail(path + ".roles", "is missing; name the roles that share it");
      for (int r = 0; r < pool.roles_size(); ++r) {
        const std::string field = absl::StrCat(path, ".roles[", r, "]");
        if (roles.count(pool.roles(r)) == 0) {
          Fail(field, absl::StrCat("the job has no role '", pool.roles(r),
                                   "'; it has: ", absl::StrJoin(roles, ", ")));
        } else if (const auto [at, isnew] = pool_of.emplace(pool.roles(r), i); !isnew) {
          Fail(field, absl::StrCat(pool.roles(r), " is already in pools[", at->second, "]"));
        }
      }
      if (pool.has_devices()) Devices(path + ".devices", pool.devices());
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
  std::vector<v1::FieldViolation>* out_;
};

}  // namespace

void CheckPlacement(const v1::JobSpec& given, const v1::Dataflow& dataflow,
                    std::vector<v1::FieldViolation>* violations) {
  const std::vector<std::string> roles = RolesInOrder(given, dataflow);
  PlacementCheck check(given.resources(), violations);
  check.Scalars();
  check.Auto(given, dataflow);
  check.Pools({roles.begin(), roles.end()});
}

}  // namespace baton::controller
