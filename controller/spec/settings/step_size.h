// Limits on the size of one step or evaluation: products of a spec's numbers, each of which is
// within its own bounds.
//
// Pure. The controller holds a step's responses until the step is done, so these limits bound its
// memory and the length of a turn.
#ifndef BATON_CONTROLLER_SPEC_SETTINGS_STEP_SIZE_H_
#define BATON_CONTROLLER_SPEC_SETTINGS_STEP_SIZE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "baton/v1/error.pb.h"
#include "baton/v1/job_spec.pb.h"

namespace baton::controller {

/// Limit for a row of `batches`. SQLite, the default store, refuses 1,000,000,000 bytes and more.
inline constexpr int64_t kMaxBatchRowBytes = 900'000'000;

struct StepLimits {
  int64_t responses = 262'144;     ///< In one step, or in one evaluation.
  int64_t tokens = 8'589'934'592;  ///< In these and their prompts, each at its maximal length.
};

/// The least bytes that the row of a batch has for a response: ids, versions, lengths, places in
/// the experience log, and the scores and hashes of columns that the dataflow names.
int64_t LeastBatchEntryBytes(const v1::Dataflow& dataflow);

/// Workers that one job may ask for together: its row names each of them.
inline constexpr int64_t kMaxJobWorkers = 16'384;

/// Sizes of `effective` that are too large. Its defaults are filled in; each text has the product
/// and says how to get a larger limit.
std::vector<v1::FieldViolation> CheckStepSize(const v1::JobSpec& effective,
                                              const v1::Dataflow& dataflow,
                                              const StepLimits& limits);
/// The problem of an evaluation with that many examples in data.val_files; empty: it is not too
/// large.
std::string EvaluationTooLarge(const v1::JobSpec& effective, uint64_t examples,
                               const StepLimits& limits);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_SPEC_SETTINGS_STEP_SIZE_H_
