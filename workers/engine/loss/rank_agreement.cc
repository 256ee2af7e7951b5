#include "workers/engine/loss/rank_agreement.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sdk/common/base/status_macros.h"
#include "workers/engine/model/exceptions.h"

namespace baton::engine {
namespace {

Communicator* UnlessAlone(Communicator* group) {
  return group != nullptr && group->size() > 1 ? group : nullptr;
}

/// FNV-1a, a word at a time.
class Hash {
 public:
  void Add(uint64_t word) { state_ = (state_ ^ word) * 1099511628211u; }
  template <typename T>
  void AddAll(const std::vector<T>& values) {
    Add(values.size());
    for (const T& value : values) {
      uint64_t word = 0;
      std::memcpy(&word, &value, sizeof(value));
      Add(word);
    }
  }
  void AddHeader(const TrainSequence& s) {
    Add(static_cast<uint64_t>(s.prompt_length));
    Add(static_cast<uint64_t>(s.length()));
    AddAll(s.loss_mask);
    Add((s.positive ? 1 : 0) + (s.pretraining ? 2 : 0));
    if (s.pretraining) AddAll(s.tokens);
  }
  uint64_t state() const { return state_; }

 private:
  uint64_t state_ = 14695981039346656037u;
};

}  // namespace

uint64_t DigestOf(absl::Span<const TrainSequence> batch) {
  Hash hash;
  hash.Add(batch.size());
  for (const TrainSequence& s : batch) {
    hash.AddHeader(s);
    hash.AddAll(s.tokens);
    hash.AddAll(s.behaviour_log_probs);
    hash.AddAll(s.ref_log_probs);
    hash.AddAll(s.advantages);
    hash.AddAll(s.values);
    hash.AddAll(s.returns);
    hash.AddAll(s.old_log_probs);
  }
  return hash.state();
}

uint64_t HeaderDigestOf(absl::Span<const TrainSequence> batch) {
  Hash hash;
  hash.Add(batch.size());
  for (const TrainSequence& s : batch) hash.AddHeader(s);
  return hash.state();
}

RankAgreement::RankAgreement(Communicator* tensor_group, Communicator* data_group,
                             torch::Device device)
    : tensor_(UnlessAlone(tensor_group)), data_(UnlessAlone(data_group)), device_(device) {}

void RankAgreement::AllReduce(torch::Tensor& tensor, Reduction reduction,
                              Communicator* group) const {
  if (group == nullptr) return;
  const torch::Tensor there = tensor.to(device_);
  group->AllReduce(there, reduction);
  tensor = there.to(torch::kCPU);
}

BatchShare RankAgreement::ShareOf(std::vector<int64_t> lengths, const SequenceCost& cost) const {
  BatchShare share;
  share.lengths = std::move(lengths);
  if (data_ == nullptr) return share;
  std::vector<double> costs;
  for (int64_t length : share.lengths) costs.push_back(cost.Of(length));
  const auto parts = BalanceByCost(costs, data_ranks());
  share.imbalance = Imbalance(PartCosts(costs, parts));
  for (int r = 0; r < data_ranks(); ++r) {
    if (r == data_rank()) continue;
    for (int64_t index : parts[r]) share.lengths[index] = 0;
  }
  return share;
}

absl::Status RankAgreement::CheckSame(uint64_t digest, absl::string_view what) {
  return CheckSameIn({data_, tensor_}, digest, what);
}

absl::Status RankAgreement::AgreeOnUpdate(const UpdateDigests& mine, const absl::Status& planned) {
  if (alone()) return planned;
  try {
    BATON_RETURN_IF_ERROR(CheckSame(mine.batch, "batches"));
    BATON_RETURN_IF_ERROR(CheckSame(mine.options, "options, or stand at different steps"));
    // First: a rank without its share has another digest of it than its tensor group.
    BATON_RETURN_IF_ERROR(FirstError(planned));
    const absl::Status same = CheckSameIn({tensor_}, mine.share, "shares of a batch");
    return FirstError(planned.ok() ? same : planned);
  } catch (const std::exception& e) {
    return FromException(e);
  }
}

absl::Status RankAgreement::CheckSameIn(std::initializer_list<Communicator*> groups,
                                        uint64_t digest, absl::string_view what) {
  if (alone()) return absl::OkStatus();
  const int64_t mine = static_cast<int64_t>(digest);
  // The largest, and the complement of the smallest.
  torch::Tensor extremes = torch::tensor({mine, ~mine}, torch::kInt64);
  for (Communicator* group : groups) AllReduce(extremes, Reduction::kMax, group);
  if (extremes[0].item<int64_t>() == ~extremes[1].item<int64_t>()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the ranks of the group were given different ", what,
                   "; every rank takes the same batch, in the same order"));
}

absl::Status RankAgreement::FirstError(const absl::Status& mine) {
  if (alone()) return mine;
  // Each rank has a number of its own, for only one may speak; the ranks that come first have the
  // larger ones. A rank without an error says 0.
  const int64_t tp = tensor_ == nullptr ? 1 : tensor_->size();
  const int64_t rank = data_rank() * tp + (tensor_ == nullptr ? 0 : tensor_->rank());
  const int64_t place = data_ranks() * tp - rank;
  const int64_t number = mine.ok() ? 0 : place;
  torch::Tensor first = torch::full({1}, number, torch::kInt64);
  AllReduce(first, Reduction::kMax, data_);
  AllReduce(first, Reduction::kMax, tensor_);
  const int64_t speaker = first[0].item<int64_t>();
  if (speaker == 0) return absl::OkStatus();
  torch::Tensor error = torch::zeros({1 + kMostErrorBytes}, torch::kInt64);
  int64_t* words = error.data_ptr<int64_t>();
  if (number == speaker) {
    words[0] = static_cast<int64_t>(mine.code());
    const absl::string_view text = mine.message().substr(0, kMostErrorBytes);
    std::transform(text.begin(), text.end(), words + 1,
                   [](char c) { return static_cast<unsigned char>(c); });
  }
  AllReduce(error, Reduction::kMax, data_);
  AllReduce(error, Reduction::kMax, tensor_);
  words = error.data_ptr<int64_t>();
  std::string text(words + 1, std::find(words + 1, words + error.numel(), 0));
  return absl::Status(static_cast<absl::StatusCode>(words[0]), text);
}

bool RankAgreement::Any(bool mine) {
  if (alone()) return mine;
  torch::Tensor any = torch::full({1}, mine ? 1 : 0, torch::kInt64);
  AllReduce(any, Reduction::kMax, data_);
  AllReduce(any, Reduction::kMax, tensor_);
  return any.item<int64_t>() != 0;
}

absl::Status RankAgreement::SumUnlessFailed(const absl::Status& mine, absl::Span<double> sums) {
  if (data_ == nullptr) return mine;
  const int64_t ranks = data_ranks();
  torch::Tensor all = torch::zeros({ranks + static_cast<int64_t>(sums.size())}, torch::kFloat64);
  double* values = all.data_ptr<double>();
  values[data_rank()] = mine.ok() ? 0 : 1;
  // A sum that is not finite would be everybody's.
  if (mine.ok()) std::copy(sums.begin(), sums.end(), values + ranks);
  AllReduce(all, Reduction::kSum, data_);
  values = all.data_ptr<double>();
  if (!mine.ok()) return mine;
  for (int64_t r = 0; r < ranks; ++r) {
    if (values[r] != 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("data-parallel rank ", r, " refused the mini-batch; its log says why"));
    }
  }
  std::copy(values + ranks, values + ranks + sums.size(), sums.begin());
  return absl::OkStatus();
}

}  // namespace baton::engine
