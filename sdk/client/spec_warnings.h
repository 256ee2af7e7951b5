// Warnings about a valid spec that may not mean what its author thinks.
#ifndef BATON_SDK_CLIENT_SPEC_WARNINGS_H_
#define BATON_SDK_CLIENT_SPEC_WARNINGS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "baton/v1/job_spec.pb.h"

namespace baton {

/// One sentence each, with the path of the field: mini-batches that do not divide a step's
/// sequences, and KL terms whose expected gradient is zero. `effective` and `dataflow` are what the
/// controller made of a spec (ValidateJob, CreateJob). Pure.
std::vector<std::string> SpecWarnings(const v1::JobSpec& effective, const v1::Dataflow& dataflow);

/// The YAML of a spec, with a comment beside each number whose unit differs in other programs.
std::string WithUnits(absl::string_view yaml);

}  // namespace baton

#endif  // BATON_SDK_CLIENT_SPEC_WARNINGS_H_
