// Presets, the named algorithms: each is only a dataflow with defaults.
#ifndef BATON_CONTROLLER_SPEC_JOB_SPEC_PRESETS_H_
#define BATON_CONTROLLER_SPEC_JOB_SPEC_PRESETS_H_

#include <string>
#include <vector>

#include "baton/v1/job_spec.pb.h"

namespace baton::controller {

struct Preset {
  std::string name;
  v1::JobKind kind = v1::JOB_KIND_RL;
  std::string summary;  ///< One line, with its source.
};

/// All presets, in the order in which they are listed to people.
const std::vector<Preset>& Presets();
std::vector<std::string> PresetsOf(v1::JobKind kind);
/// "grpo" for rl, "sft" for sft, "reward_model" for reward_model.
std::string DefaultPreset(v1::JobKind kind);

/// A spec to start from: the preset with its numbers and its whole graph; model, data and rewards
/// are examples to be replaced. None for an unknown name.
v1::JobSpec ExampleSpec(const std::string& preset);

/// Fills in settings of the preset of `algorithm` that the user did not set. Does nothing for an
/// unknown preset.
void FillPreset(v1::AlgorithmSpec* algorithm);

/// The graph of a spec whose defaults are filled in: the preset's nodes with the spec's numbers.
v1::Dataflow MakeDataflow(const v1::JobSpec& effective);

/// Completes the updates of a graph: a loss option that a node does not name takes the spec's value
/// from spec.algorithm, rollout.temperature or a critic's section. Workers read only the graph.
void FillUpdates(const v1::JobSpec& effective, v1::Dataflow* dataflow);

/// Gives updates that divide their losses by a constant (loss_agg_mode seq-mean-token-sum-norm:
/// dr_grpo) the longest response allowed, so that it does not depend on the batch. A
/// loss_scale_factor that is there stays. Call it after FillUpdates.
void FillLossScale(const v1::JobSpec& effective, v1::Dataflow* dataflow);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_SPEC_JOB_SPEC_PRESETS_H_
