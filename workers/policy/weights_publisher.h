// The publisher of a model's versions, for the one rank that holds it or for several together.
//
// clang-format off
//   rank 0      Begin ── says where ──┐                         ┌── Seal ── says that it is over
//                                     ├ writes boxes, commits ──┤
//   the others  ── hear where, Join ──┘                         └── hear: again, or over
// clang-format on
//
// Every rank writes the boxes that it holds into the version's memory, so no rank needs room for
// the whole model. The first rank alone waits for a relay that is starting again, and lets the
// others hear that it does.
#ifndef BATON_WORKERS_POLICY_WEIGHTS_PUBLISHER_H_
#define BATON_WORKERS_POLICY_WEIGHTS_PUBLISHER_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "relay/weights/safetensors_writer.h"
#include "workers/engine/generation/leader_channel.h"
#include "workers/engine/model/model.h"
#include "workers/policy/weights_relay.h"

namespace baton::policy {

/// One thread at a time. A rank on another machine than the first cannot map its version, and a
/// rank with another relay cannot commit: the first rank then gets each tensor from the ranks that
/// hold it, and writes alone. It does so with the next versions, too; then it tries the normal way
/// again, for the reason may be gone (a relay that started again). It tries less and less often:
/// after 1, 2, 4 … kMostGathered versions.
class WeightsPublisher {
 public:
  /// `relay` and `model` outlive this. `dtype`: the published type; absent: that of the model.
  WeightsPublisher(WeightsRelay* relay, const engine::CausalLM* model,
                   std::optional<torch::Dtype> dtype)
      : relay_(relay), model_(model), dtype_(dtype) {}

  /// Blocks until the version is visible. All ranks of the model's tensor group call this together,
  /// and each answers what went wrong at itself; the first answers for the version: errors of
  /// WeightsRelay; those of another rank that could not write, by their code. Unavailable or
  /// DeadlineExceeded, too: a rank was lost. `cancelled` ends the first rank's wait for the relay.
  [[nodiscard]] absl::Status Publish(const Publication& what, const absl::Notification& cancelled);

  /// Size of the version last handed to Publish.
  int64_t size_bytes() const { return layout_.file_size(); }

 private:
  using Writer = WeightsRelay::Writer;

  absl::Status Lead(const Publication& what, const absl::Notification& cancelled);
  absl::Status LeadOnce(const Publication& what, const absl::Notification& cancelled,
                        std::unique_ptr<engine::GroupLeader>& leader);
  absl::Status Follow(const Publication& what);
  /// NotFound: the version is to be begun again.
  absl::Status WriteOwnBoxes(const absl::StatusOr<Writer>& writer);
  absl::Status WriteAndCommit(relay::SegmentWriter& writer, int rank);
  absl::Status WriteGathered(const Writer& writer);
  /// The next try is gathered, and so are some versions after this one.
  void GatherFromNow(const absl::Status& reason);
  /// `mine` if that is an error, else the error of the first rank that has one. On every rank.
  absl::Status OfAllRanks(const absl::Status& mine);
  std::unique_ptr<engine::GroupLeader> StartLeading() const;

  WeightsRelay* const relay_;
  const engine::CausalLM* const model_;
  const std::optional<torch::Dtype> dtype_;
  relay::SafetensorsLayout layout_;
  // State of the first rank.
  bool gathers_ = false;   ///< Gather this version: some rank could not map it, or another lately.
  int gathered_left_ = 0;  ///< Versions to gather before the next try.
  int gathered_at_once_ = 1;  ///< … after the next failure.

  bool broken_ = false;  ///< A collective has failed: nothing can be said any more.
};

}  // namespace baton::policy

#endif  // BATON_WORKERS_POLICY_WEIGHTS_PUBLISHER_H_
