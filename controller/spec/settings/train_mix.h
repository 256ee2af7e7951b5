// Mix of the files of data.train_files: spec.data.train_mix.
//
// Pure. The steps that the entries name are counted in prompt indices: step s has the indices from
// (s - 1) · train_batch_size on. In a sync job without dynamic sampling these are the prompts of
// the step.
#ifndef BATON_CONTROLLER_SPEC_SETTINGS_TRAIN_MIX_H_
#define BATON_CONTROLLER_SPEC_SETTINGS_TRAIN_MIX_H_

#include <cstdint>
#include <vector>

#include "baton/v1/job_spec.pb.h"
#include "sdk/common/messages/violations.h"

namespace baton::controller {

/// Each file of a mix has a metric of its own (data/share_I).
inline constexpr int kMostMixedFiles = 64;

/// Steps that use the same files. A phase lasts up to the next one, the last phase for ever.
struct MixPhase {
  int64_t from_step = 1;
  std::vector<int> files;  ///< Ascending; none: no entry names these steps.
};
/// All phases, the first one from step 1. `data` has a mix, with its defaults.
std::vector<MixPhase> PhasesOf(const v1::DataSpec& data);

/// Adds the problems of data.train_mix. `spec` has its defaults. `out` has the problems of the
/// mix's single fields; the steps of the mix are checked only if there are none.
void CheckTrainMix(const v1::JobSpec& spec, Violations* out);

/// The job will do `steps` steps, more than before: the files of the last phase stay.
void ExtendTrainMix(int64_t steps, v1::DataSpec* data);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_SPEC_SETTINGS_TRAIN_MIX_H_
