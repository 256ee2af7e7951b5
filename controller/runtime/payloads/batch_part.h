// A training batch as the controller holds and serves it.
#ifndef BATON_CONTROLLER_RUNTIME_PAYLOADS_BATCH_PART_H_
#define BATON_CONTROLLER_RUNTIME_PAYLOADS_BATCH_PART_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "baton/v1/experience.pb.h"
#include "baton/v1/experience_service.pb.h"
#include "controller/core/job/trajectory.h"
#include "controller/runtime/payloads/packed_payload.h"

namespace baton::controller {

/// The records of the experience log that make the payload of a trajectory.
struct LoggedPayload {
  LoggedPayload() = default;
  explicit LoggedPayload(const TrajectoryInfo& info);

  uint64_t id = 0;
  uint64_t serial = 0;                   ///< Serial of the row that names them.
  std::vector<PayloadLocation> records;  ///< The response; then the columns, by score node.
};

/// A trajectory of a batch.
struct BatchEntry {
  /// The payload, if the experience log does not have it: examples, pretraining texts. Null: it is
  /// `logged`.
  std::shared_ptr<const v1::Trajectory> payload;
  std::shared_ptr<const PackedPayload> added;  ///< Added by the batch; null: nothing.
  LoggedPayload logged;
  /// Names of its columns, sorted; as a rule all entries share them. Null: they are in `payload`.
  std::shared_ptr<const std::vector<std::string>> columns;
  std::weak_ptr<const PackedPayload> cached;    ///< The logged payload, while in memory.
  std::shared_ptr<const PackedPayload> header;  ///< HeaderOf the logged payload; null: none.

  /// The columns, scores and the step that the batch gives it.
  v1::Trajectory Added() const { return added == nullptr ? v1::Trajectory() : added->Unpack(); }

  /// `payload` with what the batch adds.
  v1::Trajectory Whole(v1::Trajectory payload) const;
  v1::Trajectory Whole() const { return Whole(*payload); }
  /// The header, as FetchBatchRequest.VIEW_HEADERS says. Nullopt: the payload's segments do not
  /// give the number of the columns' tokens, as in payloads of early releases; then the whole is
  /// sent.
  std::optional<v1::Trajectory> Header() const;
  /// Bytes in memory that only the batch has, without `columns`.
  uint64_t OwnBytes() const;
};

/// The header of a payload, without what the batch adds. Nullopt: it has none.
std::optional<v1::Trajectory> HeaderOf(const v1::Trajectory& payload);

/// In the order of the batch. Constant once it is built.
using BatchEntries = std::vector<BatchEntry>;

/// Access of a batch to payloads that are only in the experience log.
struct BatchSource {
  /// Blocks. Called only within the work of `post`.
  std::function<absl::StatusOr<v1::Trajectory>(const LoggedPayload&)> read;
  /// Runs work that may block. When the controller stops, the work is dropped.
  std::function<void(std::function<void()> work)> post;
};

/// The part of a batch that one FetchBatch asks for. It holds the batch and copies a trajectory
/// when that is asked for. May be read by any thread, one at a time.
class BatchPart {
 public:
  /// An empty part.
  BatchPart() = default;
  /// OUT_OF_RANGE (BATCH_RANGE): the request names what the batch does not have, or rows that do
  /// not ascend, or rows and a range.
  static absl::StatusOr<BatchPart> Of(std::shared_ptr<const BatchEntries> batch,
                                      const v1::FetchBatchRequest& request,
                                      BatchSource reader = {});

  size_t size() const { return rows_.size(); }
  /// The `i`-th trajectory, if no file must be read for it.
  std::optional<v1::Trajectory> TryAt(size_t i) const;
  /// The same, from the experience log if need be. Call it within the work of Post. An error says
  /// that the log cannot give it back.
  absl::StatusOr<v1::Trajectory> At(size_t i) const;
  /// Runs work that may block.
  void Post(std::function<void()> work) const;

 private:
  BatchSource reader_;
  std::shared_ptr<const BatchEntries> batch_;
  std::vector<int32_t> rows_;
  bool headers_ = false;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_PAYLOADS_BATCH_PART_H_
