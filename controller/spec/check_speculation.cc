#include "controller/spec/check_speculation.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "controller/spec/pools.h"
#include "controller/spec/role_names.h"
#include "sdk/base/mutant.h"

namespace baton::controller {
namespace {

constexpr char kGuessesOn[] = "auto";
constexpr char kGuessesOff[] = "off";
constexpr absl::string_view kSeedPrefix = "job:";

// The name in `job:NAME`; "": it is none of a job of the same project.
std::string NameOfSeed(absl::string_view seed_from) {
  const bool named = absl::ConsumePrefix(&seed_from, kSeedPrefix);
  const bool plain = seed_from.find_first_of("@/") == absl::string_view::npos;
  return named && (plain || Mutant("seed-of-another-project")) ? std::string(seed_from) : "";
}

class SpeculationCheck {
 public:
  explicit SpeculationCheck(std::vector<v1::FieldViolation>* out) : out_(out) {}

  void Fail(absl::string_view field, std::string description) {
    v1::FieldViolation violation;
    violation.set_field(absl::StrCat("spec.rollout.speculation.", field));
    violation.set_description(std::move(description));
    out_->push_back(std::move(violation));
  }

  template <typename T>
  void InRange(absl::string_view field, T value, T low, T high) {
    if (std::isfinite(static_cast<double>(value)) && value >= low && value <= high) return;
    Fail(field, absl::StrCat(value, " is not in [", low, ", ", high, "]"));
  }

  void RunAhead(const v1::JobSpec& spec, const v1::Dataflow& dataflow) {
    const v1::SpeculationSpec& speculation = spec.rollout().speculation();
    if (!speculation.run_ahead()) return;
    if (speculation.mode() == kGuessesOff) {
      Fail("run_ahead", "needs mode: auto, for it makes guesses; remove it, or set the mode");
    }
    for (const RolePool& pool : PoolsOf(spec, dataflow)) {
      const auto& roles = pool.roles;
      if (std::count(roles.begin(), roles.end(), roles::kRollout) == 0 || roles.size() == 1) {
        continue;
      }
      Fail("run_ahead",
           absl::StrCat("needs rollouts with workers of their own, and here they share them (",
                        absl::StrJoin(roles, ", "),
                        "): put rollout into a pool of its own, e.g. resources.placement: split, "
                        "or remove it"));
    }
  }

  void SeedFrom(const v1::SpeculationSpec& speculation) {
    if (!speculation.has_seed_from()) return;
    if (NameOfSeed(speculation.seed_from()).empty()) {
      Fail("seed_from", absl::StrCat("'", speculation.seed_from(),
                                     "' is not the name of a job; write job:NAME"));
    } else if (speculation.mode() == kGuessesOff) {
      Fail("seed_from", "needs mode: auto, for it is guessed from; remove it, or set the mode");
    }
  }

 private:
  std::vector<v1::FieldViolation>* const out_;
};

}  // namespace

void CheckSpeculation(const v1::Dataflow& dataflow, v1::JobSpec* spec,
                      std::vector<v1::FieldViolation>* out) {
  if (spec->kind() != v1::JOB_KIND_RL) return;
  SpeculationCheck check(out);
  v1::SpeculationSpec& speculation = *spec->mutable_rollout()->mutable_speculation();
  if (!speculation.has_mode()) speculation.set_mode(kGuessesOn);
  if (speculation.mode() != kGuessesOn && speculation.mode() != kGuessesOff) {
    check.Fail("mode", absl::StrCat("'", speculation.mode(), "' is not one of: ", kGuessesOn, ", ",
                                    kGuessesOff));
  }
  if (!speculation.has_max_draft_tokens()) speculation.set_max_draft_tokens(128);
  check.InRange("max_draft_tokens", speculation.max_draft_tokens(), 1, 4096);
  if (!speculation.has_half_life_updates()) speculation.set_half_life_updates(64);
  check.InRange("half_life_updates", speculation.half_life_updates(), 0.0, 1e9);
  if (!speculation.has_cache_bytes()) speculation.set_cache_bytes(int64_t{1} << 30);
  check.InRange("cache_bytes", speculation.cache_bytes(), int64_t{1} << 20, int64_t{1} << 50);
  if (!speculation.has_run_ahead()) speculation.set_run_ahead(false);
  check.RunAhead(*spec, dataflow);
  check.SeedFrom(speculation);
}

bool RunsAhead(const v1::JobSpec& effective) {
  return effective.kind() == v1::JOB_KIND_RL && effective.rollout().speculation().run_ahead();
}

std::string SeedJob(const v1::JobSpec& effective) {
  if (effective.kind() != v1::JOB_KIND_RL) return "";
  return NameOfSeed(effective.rollout().speculation().seed_from());
}

}  // namespace baton::controller
