// The agreement among the ranks that train one model together, at every step: that they were given
// the same batch, who takes which sequences, whether any of them was cancelled, refuses its share
// or found a loss that is not finite, and the sums that metrics are made of. Without other ranks
// all is decided alone, and nothing is sent.
#ifndef BATON_WORKERS_ENGINE_LOSS_RANK_AGREEMENT_H_
#define BATON_WORKERS_ENGINE_LOSS_RANK_AGREEMENT_H_

#include <torch/torch.h>

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "sdk/common/parallel/balance.h"
#include "workers/engine/loss/micro_batch.h"
#include "workers/engine/model/communicator.h"

namespace baton::engine {

/// One data rank's part of a mini-batch.
struct BatchShare {
  /// Rows of each sequence of the mini-batch; 0 for those that others have.
  std::vector<int64_t> lengths;
  /// Imbalance of the costs of all shares (sdk/common/parallel/balance.h); alone 1.
  double imbalance = 1;
};

/// A number that differs, but for luck, where any token, mask, column or length does.
uint64_t DigestOf(absl::Span<const TrainSequence> batch);

/// The digest of what every rank knows of every sequence: lengths, masks, signs, and the tokens of
/// pretraining texts. It does not depend on which sequences are remote.
uint64_t HeaderDigestOf(absl::Span<const TrainSequence> batch);

/// The digests that ranks compare before an update.
struct UpdateDigests {
  uint64_t batch = 0;    ///< HeaderDigestOf; DigestOf where every rank has all of it.
  uint64_t options = 0;  ///< And the step they stand at.
  uint64_t share = 0;    ///< DigestOf.
};

/// One thread at a time. All but the constructor and the getters are collective and may throw.
class RankAgreement {
 public:
  /// Groups may be null or of size 1. `device`: where their tensors have to be.
  RankAgreement(Communicator* tensor_group, Communicator* data_group, torch::Device device);

  Communicator* tensor_group() const { return tensor_; }  ///< Null: none but this rank.
  Communicator* data_group() const { return data_; }      ///< Likewise.
  bool alone() const { return tensor_ == nullptr && data_ == nullptr; }
  int data_ranks() const { return data_ == nullptr ? 1 : data_->size(); }
  int data_rank() const { return data_ == nullptr ? 0 : data_->rank(); }

  /// Divides sequences of these row counts among the data ranks by cost. Not collective.
  BatchShare ShareOf(std::vector<int64_t> lengths, const SequenceCost& cost) const;

  /// InvalidArgument on every rank unless all have the same `digest`.
  [[nodiscard]] absl::Status CheckSame(uint64_t digest, absl::string_view what);

  /// OK on every rank when all have the same batch and options, those of a tensor group, which
  /// train on one share together, the same share, and `planned` is OK on all. Otherwise
  /// InvalidArgument, or the error of the first rank whose `planned` has one. Does not throw.
  [[nodiscard]] absl::Status AgreeOnUpdate(const UpdateDigests& mine, const absl::Status& planned);

  /// The same answer on every rank: OK when `mine` is OK on all, else the error of the first data
  /// rank that has one (of a long message the first kMostErrorBytes).
  [[nodiscard]] absl::Status FirstError(const absl::Status& mine);
  static constexpr int64_t kMostErrorBytes = 1000;

  /// Whether any rank says so.
  bool Any(bool mine);

  /// Adds up `sums` over the data ranks. Answers `mine` where it is not OK; else
  /// FailedPrecondition naming the first data rank whose status is not.
  [[nodiscard]] absl::Status SumUnlessFailed(const absl::Status& mine, absl::Span<double> sums);

 private:
  absl::Status CheckSameIn(std::initializer_list<Communicator*> groups, uint64_t digest,
                           absl::string_view what);
  void AllReduce(torch::Tensor& tensor, Reduction reduction, Communicator* group) const;

  Communicator* const tensor_;
  Communicator* const data_;
  const torch::Device device_;
};

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_LOSS_RANK_AGREEMENT_H_
