#include "controller/spec/settings/check_speculation.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "controller/spec/dataflow/pools.h"
#include "controller/spec/dataflow/role_names.h"
#include "sdk/common/messages/settings.h"

namespace baton::controller {
namespace {

constexpr char kGuessesOff[] = "off";
constexpr absl::string_view kSeedPrefix = "job:";

// The name in `job:NAME`; "": not a job of the same project.
std::string NameOfSeed(absl::string_view seed_from) {
  const bool named = absl::ConsumePrefix(&seed_from, kSeedPrefix);
  const bool plain = seed_from.find_first_of("@/") == absl::string_view::npos;
  return named && plain ? std::string(seed_from) : "";
}

class SpeculationCheck {
 public:
  explicit SpeculationCheck(Violations* out) : out_(*out) {}

  void RunAhead(const v1::JobSpec& spec, const v1::Dataflow& dataflow) {
    const v1::SpeculationSpec& speculation = spec.rollout().speculation();
    if (!speculation.run_ahead()) return;
    if (speculation.mode() == kGuessesOff) {
      out_.Add("rollout.speculation.run_ahead",
               "needs mode: auto, for it makes guesses; remove it, or set the mode");
    }
    for (const RolePool& pool : PoolsOf(spec, dataflow)) {
      const auto& roles = pool.roles;
      if (std::count(roles.begin(), roles.end(), roles::kRollout) == 0 || roles.size() == 1) {
        continue;
      }
      out_.Add(
          "rollout.speculation.run_ahead",
          absl::StrCat("needs rollouts with workers of their own, and here they share them (",
                       absl::StrJoin(roles, ", "),
                       "): put rollout into a pool of its own, e.g. resources.placement: split, "
                       "or remove it"));
    }
  }

  void SeedFrom(const v1::SpeculationSpec& speculation) {
    if (!speculation.has_seed_from()) return;
    if (NameOfSeed(speculation.seed_from()).empty()) {
      out_.Add(
          "rollout.speculation.seed_from",
          absl::StrCat("'", speculation.seed_from(), "' is not the name of a job; write job:NAME"));
    } else if (speculation.mode() == kGuessesOff) {
      out_.Add("rollout.speculation.seed_from",
               "needs mode: auto, for it is guessed from; remove it, or set the mode");
    }
  }

 private:
  Violations& out_;
};

}  // namespace

void CheckSpeculation(const v1::Dataflow& dataflow, v1::JobSpec* spec, Violations* out) {
  if (spec->kind() != v1::JOB_KIND_RL) return;
  SpeculationCheck check(out);
  v1::SpeculationSpec* speculation = spec->mutable_rollout()->mutable_speculation();
  FillDefaults(speculation);
  check.RunAhead(*spec, dataflow);
  check.SeedFrom(*speculation);
}

bool RunsAhead(const v1::JobSpec& effective) {
  return effective.kind() == v1::JOB_KIND_RL && effective.rollout().speculation().run_ahead();
}

std::string SeedJob(const v1::JobSpec& effective) {
  if (effective.kind() != v1::JOB_KIND_RL) return "";
  return NameOfSeed(effective.rollout().speculation().seed_from());
}

}  // namespace baton::controller
