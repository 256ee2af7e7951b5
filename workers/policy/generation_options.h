// The generator's options for a job, wherever its policy is.
#ifndef BATON_WORKERS_POLICY_GENERATION_OPTIONS_H_
#define BATON_WORKERS_POLICY_GENERATION_OPTIONS_H_

#include "baton/v1/job_spec.pb.h"
#include "workers/engine/generation/generator.h"
#include "workers/policy/policy_source.h"

namespace baton::policy {

/// The options that spec.rollout sets, defaults filled in.
engine::GeneratorOptions MakeGeneratorOptions(const v1::RolloutSpec& spec);

/// For stop strings, which may be special tokens. `source` must outlive it.
engine::DecodeFunction MakeDecode(const PolicySource& source);

}  // namespace baton::policy

#endif  // BATON_WORKERS_POLICY_GENERATION_OPTIONS_H_
