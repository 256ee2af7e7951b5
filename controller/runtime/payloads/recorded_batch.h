// The row of a step's batch (BatchRow), read again: to train on it, or to compare with it.
#ifndef BATON_CONTROLLER_RUNTIME_PAYLOADS_RECORDED_BATCH_H_
#define BATON_CONTROLLER_RUNTIME_PAYLOADS_RECORDED_BATCH_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "baton/store/v1/rows.pb.h"
#include "controller/core/job/events.h"
#include "controller/runtime/payloads/batch_builder.h"
#include "controller/store/store.h"

namespace baton::controller {

/// The row of the batch of `step`; nullopt: there is none. DATA_LOSS: it cannot be read, or belongs
/// to another step. Other errors are the store's. Blocks.
absl::StatusOr<std::optional<store::v1::BatchRow>> ReadBatchRow(store::Store& store,
                                                                const std::string& job,
                                                                int64_t step);

/// Asks for the batch that the row names: its responses in their order, and its baselines.
void AskFor(const store::v1::BatchRow& row, BuildBatch* ask);

/// DATA_LOSS unless `built`, of `ask`, has the columns that the row names, of the same responses in
/// the same order. The message names the step, the response, the column and both hashes. The order
/// of a response's columns may differ: readers find a column by its name. Sets the event's
/// `replayed`. Pure.
absl::Status CompareWithRow(const store::v1::BatchRow& row, const BuildBatch& ask,
                            BuiltBatch* built);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_PAYLOADS_RECORDED_BATCH_H_
