#include "controller/spec/job_spec/check_without_kind.h"

#include <algorithm>
#include <vector>

#include "controller/spec/job_spec/presets.h"

namespace baton::controller {
namespace {

// The kinds that the spec may be meant to have, the likeliest first.
std::vector<v1::JobKind> PossibleKinds(const v1::JobSpec& spec) {
  for (const Preset& preset : Presets()) {
    if (preset.name == spec.algorithm().preset()) return {preset.kind};
  }
  const bool generates = spec.has_reward() || spec.has_rollout() || spec.has_dataflow() ||
                         spec.has_critic() || spec.has_reward_model() || spec.has_judge();
  if (generates) return {v1::JOB_KIND_RL};
  return {v1::JOB_KIND_RL, v1::JOB_KIND_SFT, v1::JOB_KIND_REWARD_MODEL};
}

bool Contains(const std::vector<v1::FieldViolation>& list, const v1::FieldViolation& violation) {
  return std::any_of(list.begin(), list.end(), [&](const v1::FieldViolation& other) {
    return other.field() == violation.field() && other.description() == violation.description();
  });
}

}  // namespace

CheckedSpec CheckWithoutKind(const v1::JobSpec& spec) {
  CheckedSpec out;
  std::vector<v1::FieldViolation> common;
  bool first = true;
  for (const v1::JobKind kind : PossibleKinds(spec)) {
    v1::JobSpec likely = spec;
    likely.set_kind(kind);
    CheckedSpec checked = CheckSpec(likely);
    if (first) {
      common = checked.violations;
      out = std::move(checked);
    } else {
      common.erase(std::remove_if(common.begin(), common.end(),
                                  [&](const v1::FieldViolation& violation) {
                                    return !Contains(checked.violations, violation);
                                  }),
                   common.end());
    }
    first = false;
  }
  v1::FieldViolation& missing = *common.emplace(common.begin());
  missing.set_field("spec.kind");
  missing.set_description("is missing; one of: rl, sft, reward_model");
  out.violations = std::move(common);
  return out;
}

}  // namespace baton::controller
