// How the files of data.train_files are mixed: spec.data.train_mix.
//
// Pure. The steps that the entries name are counted in draws: step s is the draws from
// (s - 1) · train_batch_size on. A sync job without dynamic sampling draws so many a step.
#ifndef BATON_CONTROLLER_SPEC_TRAIN_MIX_H_
#define BATON_CONTROLLER_SPEC_TRAIN_MIX_H_

#include <cstdint>
#include <vector>

#include "baton/v1/job_spec.pb.h"
#include "sdk/messages/violations.h"

namespace baton::controller {

/// Each file of a mix has a metric of its own (data/share_I).
inline constexpr int kMostMixedFiles = 64;

/// Steps during which the same files are drawn from; up to the next phase, the last one for ever.
struct MixPhase {
  int64_t from_step = 1;
  std::vector<int> files;  ///< Ascending; none: no entry names these steps.
};
/// All phases, the first one from step 1. `data` has a mix, with its defaults.
std::vector<MixPhase> PhasesOf(const v1::DataSpec& data);

/// Adds what is wrong with data.train_mix. `spec` has its defaults. `out` has what is wrong with
/// the single fields of the mix: its steps are looked at only if there is nothing.
void CheckTrainMix(const v1::JobSpec& spec, Violations* out);

/// The job is to do `steps` steps, more than before: the files that are drawn from last stay.
void ExtendTrainMix(int64_t steps, v1::DataSpec* data);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_SPEC_TRAIN_MIX_H_
