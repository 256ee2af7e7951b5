// A training batch as the controller holds and serves it.
#ifndef BATON_CONTROLLER_RUNTIME_BATCH_PART_H_
#define BATON_CONTROLLER_RUNTIME_BATCH_PART_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "baton/v1/experience.pb.h"
#include "baton/v1/experience_service.pb.h"

namespace baton::controller {

/// A trajectory of a batch. The payload is that of the job: the batch adds to it and copies
/// nothing.
struct BatchEntry {
  std::shared_ptr<const v1::Trajectory> payload;
  v1::Trajectory added;  ///< Columns, scores and the step that the batch gives it.

  v1::Trajectory Whole() const;
  /// As FetchBatchRequest.VIEW_HEADERS says. Whole where the segments do not say how many tokens
  /// the columns have, as in payloads of early releases.
  v1::Trajectory Header() const;
};

/// In the order of the batch. Constant once it is built.
using BatchEntries = std::vector<BatchEntry>;

/// What one FetchBatch asks for. It holds the batch and copies a trajectory when that is asked for.
/// May be read by one thread at a time, whichever.
class BatchPart {
 public:
  /// Nothing.
  BatchPart() = default;
  /// OUT_OF_RANGE (BATCH_RANGE): the request names what the batch does not have, or rows that do
  /// not ascend, or rows and a range.
  static absl::StatusOr<BatchPart> Of(std::shared_ptr<const BatchEntries> batch,
                                      const v1::FetchBatchRequest& request);

  size_t size() const { return rows_.size(); }
  v1::Trajectory At(size_t i) const;

 private:
  std::shared_ptr<const BatchEntries> batch_;
  std::vector<int32_t> rows_;
  bool headers_ = false;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_BATCH_PART_H_
