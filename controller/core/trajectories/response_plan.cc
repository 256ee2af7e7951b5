#include "controller/core/trajectories/response_plan.h"

#include <algorithm>
#include <utility>

#include "controller/spec/schedule.h"

namespace baton::controller {

ResponsePlan::ResponsePlan(std::shared_ptr<const v1::Job> submitted)
    : submitted_(std::move(submitted)),
      graph_(submitted_->dataflow(),
             IsAsync(submitted_->effective_spec(), submitted_->dataflow())) {
  const auto& generate = submitted_->dataflow().generate();
  has_baseline_ = std::any_of(generate.begin(), generate.end(), [](const v1::GenerateNode& node) {
    return node.purpose() == "baseline";
  });
}

uint32_t ResponsePlan::Samples(v1::Purpose purpose) const {
  const v1::JobSpec& spec = submitted_->effective_spec();
  if (spec.kind() != v1::JOB_KIND_RL) return 1;
  return static_cast<uint32_t>(purpose == v1::PURPOSE_EVAL ? spec.rollout().val().n()
                                                           : spec.rollout().n());
}

}  // namespace baton::controller
