// Arguments and results of the parts of the work in progress, in a turn.
#ifndef BATON_CONTROLLER_CORE_TRAJECTORIES_WORK_CONTEXT_H_
#define BATON_CONTROLLER_CORE_TRAJECTORIES_WORK_CONTEXT_H_

#include "absl/status/status.h"
#include "controller/core/job/effect_sink.h"
#include "controller/core/prompts/prompt_data.h"
#include "controller/core/trajectories/experience_buffer.h"
#include "controller/core/weights/policy_versions.h"

namespace baton::controller {

/// The parts that the work uses in a turn.
struct WorkContext {
  EffectSink& out;
  ExperienceBuffer& buffer;
  PromptData& data;
  const PolicyVersions& versions;
  /// True if responses may be of versions other than the newest (StepPlan).
  bool many_versions = false;
};

/// The consequence of a result.
struct WorkVerdict {
  enum class Next {
    kDone,          ///< The trajectory goes on.
    kAgain,         ///< The task is tried again.
    kGroupBroken,   ///< The task is tried again, and its ranks miss one of theirs.
    kWrongVersion,  ///< The rollout holds other weights. The caller sees to that; then Retry.
    kFails,         ///< The job fails.
  };
  Next next = Next::kDone;
  absl::Status status;  ///< Why the job fails.
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_TRAJECTORIES_WORK_CONTEXT_H_
