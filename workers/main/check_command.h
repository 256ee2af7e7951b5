// `baton-worker check`: the check that finds what workers of a job would find wrong with its models
// and data, before any worker is held. The controller runs it on its own machine, whose paths a
// spec names.
#ifndef BATON_WORKERS_MAIN_CHECK_COMMAND_H_
#define BATON_WORKERS_MAIN_CHECK_COMMAND_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "baton/v1/job_service.pb.h"
#include "baton/v1/job_spec.pb.h"

namespace baton {

/// Checks the models of `spec` (an effective spec, its paths absolute): configuration and family,
/// tokenizer, chat template, headers of the weights; stop strings that no response can contain; and
/// each line of its data as the job's workers will encode it: prompts that are too long, characters
/// without a token, tokens without an embedding, messages that the template cannot render, pairs
/// that are equal once they are cut.
///
/// The answer has the violations, each with its field and a line of data as FILE:LINE. With
/// data.filter_overlong_prompts files that have prompts too long are written anew without those
/// lines below `filtered_folder`, `filtered_bytes` at most in all of them; `effective_spec` names
/// these instead, and `data_files` counts the lines. INVALID_ARGUMENT: data asks for a filter and
/// there is no folder. Files that do not fit into `filtered_bytes` or onto the disk are a
/// violation.
///
/// Lines for which `time`, counted from the first line, has no room are not checked but counted, in
/// `data_files`; with the filter all are checked, whatever it takes. If it was the chat template
/// that took the time, that is a violation.
absl::StatusOr<v1::ValidateJobResponse> CheckJob(const v1::JobSpec& spec,
                                                 const std::string& filtered_folder,
                                                 uint64_t filtered_bytes,
                                                 absl::Duration time = absl::InfiniteDuration());

}  // namespace baton

#endif  // BATON_WORKERS_MAIN_CHECK_COMMAND_H_
